"""JSON has types: a body of another type than its schema says is refused, text of forms is read."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from pydantic import ValidationError
from rest_framework import serializers

from agents.api.openai.schemas import ChatCompletionBody
from rag.api.http.fields import StrictSerializer
from rag.api.operations.reindex import ReindexBody
from rag.api.operations.usage import UsageParameters
from rag.api.retrieval.schemas import AskBody


class Body(StrictSerializer):
    text = serializers.CharField(allow_null=True)
    flag = serializers.BooleanField(default=False)
    number = serializers.IntegerField(default=0)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ({"text": "a", "flag": True, "number": 1}, set()),
        ({"text": None}, set()),
        ({"text": 0}, {"text"}),
        ({"text": "a", "flag": 0}, {"flag"}),
        ({"text": "a", "flag": "true"}, {"flag"}),
        ({"text": "a", "number": "1"}, {"number"}),
        ({"text": "a", "number": True}, {"number"}),
        (QueryDict("text=a&flag=true&number=1"), set()),
    ],
)
def test_serializers_take_json_as_it_is(data: Any, wrong: set[str]) -> None:
    body = Body(data=data)
    body.is_valid()
    assert set(body.errors) == wrong


ASKED: dict[str, Any] = {"query": "x", "stores": ["s"]}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (AskBody, {**ASKED, "settings": {"top_k": "5"}}),
        (ReindexBody, {"store": "s", "dry_run": 0}),
        (ChatCompletionBody, {"model": "m", "messages": [], "temperature": "0.1"}),
        (UsageParameters, {"since": "0"}),
        (UsageParameters, {"since": "1767225600"}),
    ],
)
def test_schemas_take_json_as_it_is(schema: Any, data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        schema.model_validate(data)
    assert AskBody.model_validate({**ASKED, "settings": {"top_k": 5, "vector_weight": 1}})
    assert UsageParameters.model_validate({"since": "2026-01-31"}).since
