"""The doctor on single sign-on: what is set up by half is named."""

from __future__ import annotations

from typing import Any

import pytest

from rag.services.operations.check_sign_on import check_sign_on
from tests.factories import GroupFactory

pytestmark = pytest.mark.django_db
WHOLE = {"OIDC_ISSUER": "https://id", "OIDC_CLIENT_ID": "kb", "OIDC_CLIENT_SECRET": "s"}


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ({}, []),
        (WHOLE | {"OIDC_GROUPS": {"a": "Readers"}}, []),
        (WHOLE, ["note"]),
        (WHOLE | {"OIDC_CLIENT_ID": "", "OIDC_GROUPS": {"a": "Readers"}}, ["error"]),
        ({"OIDC_GROUPS": {"a": "Readers"}}, ["error"]),
        (WHOLE | {"OIDC_ISSUER": "http://id", "OIDC_GROUPS": {"a": "Readers"}}, ["warning"]),
        (WHOLE | {"OIDC_GROUPS": {"a": "Reader"}}, ["error"]),
    ],
)
def test_what_is_set_up_by_half_is_found(
    given: dict[str, Any], levels: list[str], settings: Any
) -> None:
    GroupFactory(name="Readers")
    for name, value in given.items():
        setattr(settings, name, value)
    assert [finding.level for finding in check_sign_on()] == levels
