"""Addresses of the site."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView
from django.views.i18n import set_language

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("admin/", admin.site.urls),
    path("i18n/setlang/", set_language, name="set_language"),
]
