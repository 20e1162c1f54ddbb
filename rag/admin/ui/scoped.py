"""Scoped ModelAdmins: the caller's Scope limits every queryset and every object permission.

Django's model permissions say what kind of thing a person may do, the Scope to which rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from django.contrib import messages
from django.contrib.admin import ShowFacets
from django.contrib.admin.checks import ModelAdminChecks
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.widgets import ForeignKeyRawIdWidget
from django.db import IntegrityError
from django.db.models import JSONField, Model, QuerySet, TextField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.utils.translation import ngettext

from rag import models
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.paginator import EstimatingPaginator
from rag.admin.ui.theme import ChangeList, ExpandableTextarea, ModelAdmin
from rag.core.access import Scope
from rag.core.errors import ConflictError, RAGError
from rag.services.access import scope_of


def scope_for(request: HttpRequest) -> Scope:
    """Return the Scope of the request's user, looked up once a request."""
    known = getattr(request, "rag_scope", None)
    if known is None:
        known = scope_of(request.user)
        request.rag_scope = known  # type: ignore[attr-defined]
    return cast(Scope, known)


def local_stores(request: HttpRequest) -> QuerySet[models.Store]:
    """Return the stores of our own index that the user may change."""
    stores = models.Store.objects.editable(scope_for(request))
    return stores.filter(backend=models.Store.Backend.LOCAL)


def row_ids(queryset: QuerySet[Any]) -> list[int]:
    """Return the primary keys of the rows."""
    return list(queryset.values_list("pk", flat=True))


class NulSafeChangeList(ChangeList):
    """A ChangeList that refuses NUL in its query parameters, which PostgreSQL cannot store."""

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        """Return the filters; a NUL among them sends the visitor to the unfiltered list."""
        asked: dict[str, Any] = super().get_filters_params(params)
        if "\0" in "".join(text for name, values in asked.items() for text in (name, *values)):
            raise IncorrectLookupParameters
        return asked


class _Checks(ModelAdminChecks):
    def _check_autocomplete_fields_item(self, obj: Any, field_name: str, label: str) -> list[Any]:
        if not obj.can_search(field_name):
            return []
        found: list[Any] = super()._check_autocomplete_fields_item(obj, field_name, label)  # type: ignore[misc]
        return found


class HardenedAdmin(ModelAdmin):
    """A ModelAdmin that answers NUL in addresses and two saves at once without a crash.

    Of two saves of one unique value the second gets a field error. People are chosen by their
    number where a project has no admin that could look for them.
    """

    checks_class = _Checks

    def can_search(self, name: str) -> bool:
        """Return whether the rows that a field leads to have an admin with a search."""
        other = self.admin_site._registry.get(
            cast(Any, self.opts.get_field(name)).remote_field.model
        )
        return other is not None and bool(other.search_fields)

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        """Return the fields with a search of what they lead to."""
        return [name for name in super().get_autocomplete_fields(request) if self.can_search(name)]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the field; a number to type where there is no search."""
        if db_field.name in self.autocomplete_fields and not self.can_search(db_field.name):
            kwargs["widget"] = ForeignKeyRawIdWidget(db_field.remote_field, self.admin_site)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return NulSafeChangeList

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show or save the form; validate once more if a unique value was taken meanwhile."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except (IntegrityError, ConflictError):
            # The transaction was rolled back; validation now sees the other row.
            return super().changeform_view(request, *args, **kwargs)


class SuperuserAdmin(HardenedAdmin):
    """A ModelAdmin for superusers alone, whatever permissions others have."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


class KeptMakerAdmin(SuperuserAdmin):
    """A ModelAdmin of rows with ``created_by``, whose own pages say more than their forms."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Keep who made it."""
        obj.created_by = obj.created_by or request.user
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        """Go on to the page of what was made."""
        meta = obj._meta
        name = f"admin:{meta.app_label}_{meta.model_name}_change"
        return HttpResponseRedirect(reverse(name, args=[obj.pk]))


class ScopedChangeList(NulSafeChangeList):
    """A ChangeList that completes the rows of a page with one query, not one for each row."""

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page, then let the admin complete its rows."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        self.model_admin.complete_rows(self.result_list)  # type: ignore[attr-defined]
        self.model_admin.redact_rows(self.result_list, scope_for(request))  # type: ignore[attr-defined]


class ScopedAdmin(HardenedAdmin):
    """A ModelAdmin that shows what the Scope may read and changes what it may edit.

    The model's queryset must have ``readable(scope)`` and ``editable(scope)``, or the subclass
    says what they are by ``readable`` and ``editable``.
    """

    paginator = EstimatingPaginator
    show_full_result_count = False
    # A count behind each choice reads the whole table once a choice.
    show_facets = ShowFacets.NEVER
    list_after_template = "admin/rag/list_end.html"
    # Text areas that grow with their content.
    formfield_overrides = {
        TextField: {"widget": ExpandableTextarea},
        JSONField: {"widget": ExpandableTextarea},
    }
    empty_value_display = "–"
    list_per_page = 50
    list_max_show_all = 200
    compressed_fields = True
    warn_unsaved_form = True

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return the rows that ``scope`` may see."""
        return queryset.readable(scope)  # type: ignore[attr-defined,no-any-return]

    def editable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return the rows that ``scope`` may change."""
        return queryset.editable(scope)  # type: ignore[attr-defined,no-any-return]

    def complete_rows(self, rows: list[Any]) -> None:
        """Add to a page's rows what its columns need beyond their own fields."""

    def redact_rows(self, rows: list[Any], scope: Scope) -> None:
        """Take out of a page's rows what ``scope`` may not read of them."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ScopedChangeList

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        """Return further pages: route, view or page class, and name of the URL."""
        return ()

    def get_urls(self) -> list[URLPattern]:
        """Return the URLs of the pages, then the admin's own."""
        own = []
        for route, view, name in self.pages():
            shown = view.as_view(model_admin=self) if hasattr(view, "as_view") else view
            own.append(path(route, self.admin_site.admin_view(shown), name=name))
        return [*own, *super().get_urls()]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete the chosen rows as one alone; a service's error becomes a message."""
        self.for_each(request, queryset, lambda row: self.delete_model(request, row))

    def for_each(
        self, request: HttpRequest, rows: Iterable[Any], action: Callable[[Any], Any]
    ) -> None:
        """Apply ``action`` to each row; a service's error becomes a message."""
        for row in rows:
            try:
                action(row)
            except RAGError as error:
                self.message_user(request, error_sentence(error), messages.ERROR)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return readable rows only: for lists, pages, autocomplete and filters alike."""
        return self.readable(super().get_queryset(request), scope_for(request))

    def may_edit(self, request: HttpRequest, obj: Model) -> bool:
        """Return whether the Scope may change this row."""
        rows = self.editable(self.model._default_manager.all(), scope_for(request))
        return rows.filter(pk=obj.pk).exists()

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether both the model permission and the Scope allow it."""
        if not super().has_change_permission(request, obj):
            return False
        return not isinstance(obj, self.model) or self.may_edit(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether both the model permission and the Scope allow it."""
        if not super().has_delete_permission(request, obj):
            return False
        return not isinstance(obj, self.model) or self.may_edit(request, obj)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, Any], set[Any], list[Any]]:
        """Describe a deletion by counts; Django would load and print every related row."""
        rows = list(objs)
        editable = self.editable(self.model._default_manager.all(), scope_for(request))
        n_editable = editable.filter(pk__in=[row.pk for row in rows]).count()
        needed = set() if n_editable == len(rows) else {self.opts.verbose_name}
        shown: list[Any] = [f"{capfirst(self.opts.verbose_name)}: {row}" for row in rows[:50]]
        if len(rows) > len(shown):
            n_more = len(rows) - len(shown)
            shown.append(ngettext("and %(n)d more", "and %(n)d more", n_more) % {"n": n_more})
        counts = {self.opts.verbose_name_plural: len(rows)} | self.cascade_counts(rows)
        return shown, counts, needed, []

    def cascade_counts(self, rows: list[Any]) -> dict[Any, Any]:
        """Return what is deleted along with ``rows``: verbose names to numbers."""
        return {}


class OfStoreAdmin(ScopedAdmin):
    """A ScopedAdmin for what is made for a local store that one may change; no other is offered."""

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "store":
            kwargs["queryset"] = local_stores(request)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


class OverviewAdmin(ScopedAdmin):
    """A ScopedAdmin that shows an overview of the row above its form."""

    def overview(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return the overview's context."""
        raise NotImplementedError

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        obj = self.get_object(request, object_id)
        if obj is not None:
            extra_context = {**(extra_context or {}), "overview": self.overview(request, obj)}
        return super().change_view(request, object_id, form_url, extra_context)


class ReadOnlyAdmin(ScopedAdmin):
    """A ScopedAdmin for rows that only the product itself writes."""

    warn_unsaved_form = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
