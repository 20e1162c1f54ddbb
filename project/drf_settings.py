"""Settings of Django REST framework and drf-spectacular: authentication, pages, errors."""

from __future__ import annotations

from typing import Any

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rag.api.http.drf_authentication.CallerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rag.api.http.drf_authentication.RightsPermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rag.api.http.bodies.LimitedJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "rag.api.http.pagination.KeysetPagination",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "rag.api.http.errors.drf_exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Citable: resources",
    "DESCRIPTION": "Stores, files and chunks. Retrieval: see /api/openapi.json.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api",
    "ENUM_NAME_OVERRIDES": {"FileStatus": "rag.models.File.Status"},
}
