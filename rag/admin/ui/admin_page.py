"""Views inside the admin's layout: a page of one row, found within the caller's Scope."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.generic import TemplateView

from rag import models
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import ScopedAdmin
from rag.admin.ui.theme import PageMixin
from rag.core.errors import RAGError


class AdminPage(PageMixin, TemplateView):
    """A page of one of our admins, with its permissions and title."""

    model_admin: Any
    title: Any


class ObjectPage(AdminPage):
    """A page of one row that the caller may read; 404 for all others, as if they did not exist."""

    model_admin: ScopedAdmin
    title: Any = ""
    row: Any

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Look the row up before anything else, unless a model permission is missing."""
        if not self.has_permission():
            return self.handle_no_permission()
        self.row = get_object_or_404(self.get_rows(request), pk=kwargs["pk"])
        return super().dispatch(request, *args, **kwargs)

    def get_rows(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows that the page may be of."""
        return self.model_admin.get_queryset(request)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the admin's context with the row and its model's options."""
        return super().get_context_data(**kwargs, object=self.row, opts=self.model_admin.opts)

    def render_error(self, error: RAGError, **context: Any) -> HttpResponse:
        """Show the page again with what was typed and why it cannot be."""
        context["error"] = error_sentence(error)
        return self.render_to_response(self.get_context_data(**context), status=422)


class StorePage(ObjectPage):
    """A page of one store."""

    @property
    def store(self) -> models.Store:
        """Return the store of the address."""
        store: models.Store = self.row
        return store
