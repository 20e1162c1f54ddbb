"""Usage API: calls, tokens and cost by group and period."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any

from django.core.exceptions import ValidationError
from django.core.validators import ProhibitNullCharactersValidator
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from rag.api.http.authentication import require_caller
from rag.api.http.schemas import PROBLEMS
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.services.usage import UsageQuery, usage_report

router = Router(tags=["usage"])
_ONLY = ("provider", "model", "kind", "agent", "user", "key", "store", "run")
# A report ends at the midnight after it, which the very last day there is has not.
_LAST_DAY = date.max - timedelta(days=1)


def _storable(text: str) -> str:
    try:
        ProhibitNullCharactersValidator()(text)
    except ValidationError as error:
        # In the words of Django, which are translated.
        raise PydanticCustomError("null_characters", error.messages[0]) from error
    return text


_Text = Annotated[str, AfterValidator(_storable)]


def _written_out(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        # Pydantic would take a number for seconds since 1970.
        raise PydanticCustomError("date", "This must be a day, as 2026-01-31.")
    return value


_Day = Annotated[date, BeforeValidator(_written_out)]


class UsageParameters(Schema):
    """Days of the installation's time zone, both included; without them the current month."""

    by: str = Field(
        "day,model",
        description="Groups, separated by commas: day, month, provider,"
        " model, kind, agent, user, key, store.",
    )
    since: _Day | None = None
    until: _Day | None = None
    provider: _Text | None = None
    model: _Text | None = None
    kind: _Text | None = None
    agent: _Text | None = Field(None, description="The name of an agent or flow.")
    user: _Text | None = Field(None, description="A username.")
    key: int | None = Field(None, description="The number of a key.")
    store: _Text | None = Field(None, description="The slug of a store.")
    run: _Text | None = Field(None, description="The key of an answer, or of a flow's run.")


class Usage(Schema):
    """Sums by group. Money is by currency; calls without a known price are in no sum of money."""

    since: datetime
    until: datetime
    by: list[str]
    rows: list[dict[str, Any]]
    total: dict[str, Any]


@router.get(
    "", response={200: Usage, **PROBLEMS}, summary="What models were used for, and its cost"
)
def usage(request: Any, asked: Query[UsageParameters]) -> dict[str, Any]:
    """Return calls, tokens and money by groups: all for operators, for others their own.

    A person's own are those of their keys, too; a key for some stores sees its own.
    """
    scope = require_caller(request, "read").scope
    for name in request.GET:
        if name not in UsageParameters.model_fields:
            raise UnknownNameError("filter of usage", name, UsageParameters.model_fields)
    today = timezone.localdate()
    first, last = asked.since or today.replace(day=1), min(asked.until or today, _LAST_DAY)
    if first > last:
        raise InvalidInputError("The report ends before it begins.", hint="Swap since and until.")
    values = asked.model_dump(include=set(_ONLY))
    question = UsageQuery(
        _midnight(first),
        _midnight(last + timedelta(days=1)),
        [name.strip() for name in asked.by.split(",") if name.strip()],
        {name: value for name, value in values.items() if value not in (None, "")},
    )
    return usage_report(question=question, scope=scope)


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
