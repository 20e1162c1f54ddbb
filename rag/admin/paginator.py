"""Pages of lists that may be huge. In: a queryset. Out: pages, counted while it is cheap."""

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

EXACT_UP_TO = 5_000


class EstimatingPaginator(Paginator):
    """Counts up to 5,000 rows; beyond that it takes the planner's estimate of the query."""

    def page(self, number: Any) -> Any:
        """Return a page; far ones are found by their keys, without what their columns need."""
        number = self.validate_number(number)
        first, rows = (number - 1) * self.per_page, self.object_list
        if first <= EXACT_UP_TO or not isinstance(rows, QuerySet) or rows.query.distinct:
            return super().page(number)
        keys = list(
            rows.select_related(None).values_list("pk", flat=True)[first : first + self.per_page]
        )
        return Page(rows.filter(pk__in=keys), number, self)

    @cached_property
    def count(self) -> int:
        """Return the number of rows, an estimate when there are many."""
        rows = self.object_list
        if not isinstance(rows, QuerySet):
            return len(rows)
        n_rows = rows.order_by()[: EXACT_UP_TO + 1].count()
        if n_rows <= EXACT_UP_TO:
            return n_rows
        return max(n_rows, _estimate(rows))


def _estimate(rows: QuerySet[Any]) -> int:
    sql, params = rows.order_by().values("pk").query.sql_with_params()
    with connections[rows.db].cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0]
    plan = json.loads(plan) if isinstance(plan, str) else plan
    return int(plan[0]["Plan"]["Plan Rows"])
