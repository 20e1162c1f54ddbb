"""A supervisor that would ask itself is refused, and no agent of others is told of by it."""

from __future__ import annotations

from typing import Any

import pytest

from agents import models
from agents.chat.agents.save import check_agent
from agents.core.agent_config import AgentConfig
from rag.core.errors import InvalidInputError
from rag.services.access.api_keys import scope_of
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


def supervisor(name: str, owner: Any, *members: str) -> None:
    models.Agent.objects.create(
        name=name, owner=owner, agent_type="supervisor", config={"agents": list(members)}
    )


def refusal(owner: Any, *members: str) -> str:
    config = AgentConfig.from_dict({"agents": list(members)})
    with pytest.raises(InvalidInputError) as caught:
        check_agent(name="top", kind="supervisor", config=config, scope=scope_of(owner))
    return str(caught.value)


def test_a_circle_is_told_as_far_as_one_may_see_it() -> None:
    me, other = UserFactory(), UserFactory()
    supervisor("mine", me, "secret-plans")
    supervisor("secret-plans", other, "top")
    told = refusal(me, "mine")
    assert "top → mine → … → top" in told and "secret" not in told
    assert "top → mine → secret-plans → top" in refusal(UserFactory(is_superuser=True), "mine")


def test_oneself_is_no_member() -> None:
    assert "would ask itself" in refusal(UserFactory(), "top")
