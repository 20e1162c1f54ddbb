"""URL configuration of agents, a part of ``rag.urls``: the chat page and the APIs."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, include, path
from django.views.i18n import set_language

from agents.admin.chat_page import chat_page
from agents.admin.widget_page import widget_loader, widget_page
from agents.api import routes
from agents.api.actions import agents_api, openai_api

# Django's own login is for projects that have none: our own site has its doors before these.
_login = LoginView.as_view(template_name="chat/login.html", next_page="chat")
urlpatterns: list[URLPattern | URLResolver] = [
    path("chat", chat_page, name="chat"),
    path("widget/<str:key>.js", widget_loader, name="widget-loader"),
    path("widget/<str:key>", widget_page, name="widget"),
    path("chat/login", _login, name="chat-login"),
    path("chat/logout", LogoutView.as_view(next_page=settings.LOGIN_URL), name="chat-logout"),
    path("i18n/setlang/", set_language, name="set_language"),
    path("api/", include(routes.urlpatterns)),
    path("api/", agents_api.urls),
    path("v1/", openai_api.urls),
]
