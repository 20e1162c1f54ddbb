"""URL configuration for any project: ``path("", include("rag.urls"))``.

Apps that stand on this one bring theirs by ``citable_urls`` of their AppConfig.
"""

from __future__ import annotations

from django.apps import apps
from django.urls import URLPattern, URLResolver, include, path

from rag.api import routes
from rag.api.actions import api
from rag.api.openapi import openapi_document

_apps = [one for one in apps.get_app_configs() if hasattr(one, "citable_urls")]
# Ninja's own root answers every address below it, so it comes after the resources.
urlpatterns: list[URLPattern | URLResolver] = [
    *(path("", include(one.citable_urls)) for one in _apps),
    path("api/openapi.json", openapi_document, name="api-openapi"),
    path("api/", include(routes.urlpatterns)),
    path("api/", api.urls),
]
