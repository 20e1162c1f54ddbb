"""A key lets in until it is revoked, expired or gone, or its user switched off."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from rag.services.access.api_keys import create_key, is_live_key, revoke_key
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def test_a_key_lets_in_until_it_ends() -> None:
    later = timezone.now() + timedelta(hours=1)
    revoked, expired, gone, off, kept = (
        create_key(user=UserFactory(), name="k", expires_at=later)[0] for _ in range(5)
    )
    keys = (revoked, expired, gone, off, kept)
    assert [is_live_key(key_id=key.pk) for key in keys] == [True] * 5
    ids = [key.pk for key in keys]
    revoke_key(key=revoked)
    expired.expires_at = timezone.now()
    expired.save()
    gone.delete()
    off.user.is_active = False
    off.user.save()
    assert [is_live_key(key_id=pk) for pk in ids] == [False] * 4 + [True]
