"""URL configuration of the site."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from project.content_security import theme_css
from rag.api import routes
from rag.api.operations.monitoring import healthz, metrics, readyz

handler500 = "project.server_error.server_error"
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("theme.css", theme_css, name="theme-css"),
    # Before the admin's and the chat's, whose own logins know no second factor.
    path("", include("project.accounts.urls")),
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    # What the one document was before.
    path("api/schema.json", RedirectView.as_view(pattern_name="api-openapi")),
    path("v1/openapi.json", RedirectView.as_view(pattern_name="api-openapi")),
    path("", include("rag.urls")),
    path("api/", include([routes.catch_all])),
]
