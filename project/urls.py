"""URL configuration of the site."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from django.views.i18n import set_language

from agents.admin.chat_page import chat_page
from agents.admin.widget_page import widget_loader, widget_page
from agents.api import routes as agent_routes
from project.api import api, openai_api
from project.content_security import theme_css
from project.openapi import openapi_document
from rag.api import routes
from rag.api.operations.monitoring import healthz, metrics, readyz

handler500 = "project.server_error.server_error"
# Ninja's own root answers every address below it, so it comes after the resources.
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("theme.css", theme_css, name="theme-css"),
    # Before the admin's, whose own login knows no second factor.
    path("", include("project.accounts.urls")),
    path("admin/", admin.site.urls),
    path("chat", chat_page, name="chat"),
    path("widget/<str:key>.js", widget_loader, name="widget-loader"),
    path("widget/<str:key>", widget_page, name="widget"),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("i18n/setlang/", set_language, name="set_language"),
    path("api/openapi.json", openapi_document, name="api-openapi"),
    # What both were before there was one document.
    path("api/schema.json", RedirectView.as_view(pattern_name="api-openapi")),
    path("v1/openapi.json", RedirectView.as_view(pattern_name="api-openapi")),
    path("api/", include(agent_routes.urlpatterns)),
    path("api/", include(routes.urlpatterns)),
    path("api/", api.urls),
    path("api/", include([routes.catch_all])),
    path("v1/", openai_api.urls),
]
