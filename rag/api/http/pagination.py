"""Keyset pagination: a page after a cursor, without COUNT or OFFSET.

The millionth row costs as much as the first.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.utils.timezone import is_aware, make_aware
from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import ValidationError as FieldError
from rest_framework.pagination import BasePagination
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param


class KeysetPagination(BasePagination):  # type: ignore[misc]  # DRF has no types
    """Pages by the ordering's field and then the id, so that equal values lose no row.

    The view's ``filters`` hold ``ordering``, ``limit`` and ``cursor``, checked.
    """

    def paginate_queryset(
        self, queryset: QuerySet[Any], request: Any, view: Any = None
    ) -> list[Any]:
        """Return the rows of one page, and remember where the next one begins."""
        ordering, limit = view.filters["ordering"], view.filters["limit"]
        name = ordering.removeprefix("-")
        if view.filters.get("cursor"):
            queryset = queryset.filter(_after(queryset.model, ordering, view.filters["cursor"]))
        sign = "-" if ordering.startswith("-") else ""
        ordered = queryset.order_by(ordering, *([] if name == "id" else [f"{sign}id"]))
        rows = list(view.first_rows(ordered, limit + 1))
        self.next = None
        if len(rows) > limit:
            rows.pop()
            cursor = _cursor(ordering, getattr(rows[-1], name), rows[-1].pk)
            self.next = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        """Return the page."""
        return Response({"next": self.next, "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the page's shape for the OpenAPI document."""
        following = {
            "type": "string",
            "format": "uri",
            "nullable": True,
            "description": "Address of the next page; null on the last one.",
        }
        return {
            "type": "object",
            "required": ["next", "results"],
            "properties": {"next": following, "results": schema},
        }


def _cursor(ordering: str, value: Any, pk: int) -> str:
    plain = value if isinstance(value, int) else str(value)
    text = json.dumps([ordering, plain, pk], ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _after(model: type[Model], ordering: str, cursor: str) -> Q:
    """Return what comes after the row of ``cursor``; a made-up cursor is a field error."""
    name = ordering.removeprefix("-")
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        of, raw, pk = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        field: Any = model._meta.get_field(name)
        value = field.to_python(raw)
        if (
            of != ordering
            or value is None
            or type(pk) is not int
            or abs(pk) >= 2**63
            or "\0" in str(value)
        ):
            raise ValueError
        # JSON can spell half of a character, and a zone's shift of a day, which no database holds.
        str(value).encode()
        if isinstance(value, datetime):
            value = (value if is_aware(value) else make_aware(value)).astimezone(UTC)
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError
    except (ArithmeticError, ValueError, TypeError, RecursionError, ValidationError) as error:
        raise FieldError({"cursor": [_("The cursor does not belong to this list.")]}) from error
    step = "lt" if ordering.startswith("-") else "gt"
    if name == "id":
        return Q(**{f"pk__{step}": pk})
    # The first condition alone is what an index can use.
    return Q(**{f"{name}__{step}e": value}) & (
        Q(**{f"{name}__{step}": value}) | Q(**{name: value, f"pk__{step}": pk})
    )
