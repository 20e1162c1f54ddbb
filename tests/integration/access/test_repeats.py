"""Requests that are sent again: done once, told again, and never past their bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from rag import models
from rag.core.errors import ConflictError
from rag.services.access.repeats import (
    ABANDONED,
    KEPT,
    MAX_RESULT,
    Repeatable,
    claim_request,
    forget_request,
    keep_result,
)

pytestmark = pytest.mark.django_db
ONE = Repeatable(caller="key:1", key="k", fingerprint="a", state="s")


def test_it_is_done_once_and_told_again() -> None:
    assert claim_request(request=ONE) is None
    with pytest.raises(ConflictError, match="being worked on"):
        claim_request(request=ONE)
    keep_result(request=ONE, result={"n": 1})
    assert claim_request(request=ONE) == {"n": 1}
    with pytest.raises(ConflictError, match="another request"):
        claim_request(request=replace(ONE, fingerprint="b"))
    assert claim_request(request=replace(ONE, caller="key:2")) is None


def test_what_failed_is_done_anew() -> None:
    claim_request(request=ONE)
    forget_request(request=ONE)
    assert claim_request(request=ONE) is None


def test_nothing_is_told_again_once_rights_or_stores_have_changed() -> None:
    claim_request(request=ONE)
    keep_result(request=ONE, result={"n": 1})
    assert claim_request(request=replace(ONE, state="other")) is None


def test_an_abandoned_one_is_taken_over_and_an_old_one_forgotten() -> None:
    for age in (ABANDONED, KEPT):
        claim_request(request=replace(ONE, key=str(age)))
        before = timezone.now() - age - timedelta(seconds=1)
        models.RepeatableRequest.objects.filter(key=str(age)).update(created_at=before)
        assert claim_request(request=replace(ONE, key=str(age))) is None


def test_a_caller_keeps_few_and_no_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.services.access.repeats.MAX_KEPT", 3)
    for number in range(6):
        claim_request(request=replace(ONE, key=str(number)))
    assert models.RepeatableRequest.objects.count() == 3
    keep_result(request=replace(ONE, key="5"), result={"text": "x" * MAX_RESULT})
    assert not models.RepeatableRequest.objects.filter(key="5").exists()
