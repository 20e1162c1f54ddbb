"""Paginator of large tables: exact counts up to 5,000 rows, the planner's estimate beyond."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.paginator import Page
from django.core.paginator import Paginator as DjangoPaginator
from django.db import connections
from django.db.models import QuerySet
from django.utils.functional import cached_property

if TYPE_CHECKING:
    Paginator = DjangoPaginator[Any]
else:
    Paginator = DjangoPaginator

# Each page further back makes the database pass over all before it.
MAX_LISTED_ROWS = 5_000


class EstimatingPaginator(Paginator):
    """Counts and shows up to 5,000 rows; how many there are beyond is the planner's estimate."""

    def page(self, number: Any) -> Any:
        """Return a page, found by its keys: the rows before it need nothing of their columns."""
        number, rows = self.validate_number(number), self.object_list
        if not isinstance(rows, QuerySet) or rows.query.distinct:
            return super().page(number)
        first = (number - 1) * self.per_page
        keys = rows.select_related(None).values_list("pk", flat=True)
        return Page(rows.filter(pk__in=list(keys[first : first + self.per_page])), number, self)

    @cached_property
    def num_pages(self) -> int:
        """Return how many pages can be had, no more than the first 5,000 rows fill."""
        return min(super().num_pages, max(1, MAX_LISTED_ROWS // self.per_page))

    @property
    def n_shown(self) -> int:
        """Return how many rows the pages show; if not all, the list says so at its end."""
        return min(int(self.count), self.num_pages * self.per_page)

    @cached_property
    def count(self) -> int:
        """Return the number of rows, an estimate when there are many."""
        rows = self.object_list
        if not isinstance(rows, QuerySet):
            return len(rows)
        n_rows = rows.order_by()[: MAX_LISTED_ROWS + 1].count()
        return n_rows if n_rows <= MAX_LISTED_ROWS else max(n_rows, _estimate(rows))


def _estimate(rows: QuerySet[Any]) -> int:
    sql, params = rows.order_by().values("pk").query.sql_with_params()
    with connections[rows.db].cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0]
    plan = json.loads(plan) if isinstance(plan, str) else plan
    return int(plan[0]["Plan"]["Plan Rows"])
