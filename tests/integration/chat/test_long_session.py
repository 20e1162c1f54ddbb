"""A conversation of thousands of turns costs as much as a short one, and is read in parts."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from agents import models
from agents.chat.answers import create as start_chat
from agents.chat.history.history import MAX_TURNS, branch_turns, history_before, session_path
from rag.core.errors import ConflictError, NotFoundError
from tests.edges.api_client import client_for, error_of, ok
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
N = 450
_IDS = "SELECT nextval(pg_get_serial_sequence('agents_message', 'id')) FROM generate_series(1, %s)"


@pytest.fixture
def long(world: AgentWorld) -> models.Session:
    """Many messages one after the other; every tenth answer failed and is empty."""
    session = models.Session.objects.create(agent=world.agent, user=world.user, title="Long")
    parent: models.Message | None = None
    rows = []
    with connection.cursor() as cursor:
        cursor.execute(_IDS, [N])
        ids = [row[0] for row in cursor.fetchall()]
    for number in range(N):
        is_empty = number % 20 == 19
        parent = models.Message(
            id=ids[number],
            session=session,
            parent=parent,
            role=("user", "assistant")[number % 2],
            content="" if is_empty else f"turn {number}",
        )
        rows.append(parent)
    models.Message.objects.bulk_create(rows)
    session.head = rows[-1]
    session.save()
    return session


def test_the_last_turns_are_read_and_no_others(long: models.Session) -> None:
    said = branch_turns(message=long.head)  # type: ignore[arg-type]  # it has one
    assert len(said) == MAX_TURNS
    assert said[-1].turn == {"role": "assistant", "content": f"turn {N - 1}"}
    assert [one.turn["content"] for one in said[-3:]] == [
        f"turn {n}" for n in (N - 3, N - 2, N - 1)
    ]
    assert all(one.turn["content"] for one in said), "failed answers are left out"


def test_another_branch_is_never_read(long: models.Session) -> None:
    fork = long.messages.get(content="turn 300")
    other = models.Message.objects.create(
        session=long, parent=fork, role="assistant", content="elsewhere"
    )
    turns, summary = history_before(message=other)
    assert summary == "" and turns[-1]["content"] == "turn 300"
    assert "turn 301" not in [turn["content"] for turn in turns]
    fork.summary = "Pumps, so far."
    fork.save()
    assert history_before(message=other, is_included=True) == (
        [{"role": "assistant", "content": "elsewhere"}],
        "Pumps, so far.",
    )


def test_a_long_conversation_is_read_in_parts(world: AgentWorld, long: models.Session) -> None:
    client, address = client_for(world.user), f"/api/sessions/{long.key}/messages"
    parts, until = [], ""
    while True:
        part = ok(client.get(f"{address}?limit=150{until}"))
        parts.append(part)
        if part[0]["parent"] is None:
            break
        until = f"&until={part[0]['parent']}"
    assert [len(part) for part in parts] == [150] * 3
    keys = [turn["id"] for part in parts[::-1] for turn in part]
    assert keys == [str(key) for key in long.messages.order_by("pk").values_list("key", flat=True)]
    assert parts[0][-1]["id"] == str(long.head.key)  # type: ignore[union-attr]
    assert len(ok(client.get(address))) == 200
    error_of(client.get(f"{address}?limit=201"), 400)
    error_of(client.get(f"{address}?until=x"), 400)


def test_a_part_tells_who_shares_a_place(long: models.Session) -> None:
    root, fork = long.messages.order_by("pk")[:2]
    again = models.Message.objects.create(
        session=long, parent=root, role="assistant", content="another"
    )
    other = models.Message.objects.create(session=long, parent=None, role="user", content="first")
    turns = session_path(session=long, until=str(again.key))
    assert [turn.message.pk for turn in turns] == [root.pk, again.pk]
    assert turns[1].alternatives == (str(fork.key), str(again.key))
    assert turns[0].alternatives == (str(root.key), str(other.key))
    foreign = models.Session.objects.create(agent=long.agent, user=long.user)
    assert session_path(session=foreign) == []
    with pytest.raises(NotFoundError):
        session_path(session=foreign, until=str(root.key))


def test_of_two_who_ask_at_one_moment_one_goes_on(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.use(CITED)
    first = world.ask("How often is the pump serviced?")
    key, real = first.events[0].data["session"], start_chat.new_lease

    def meanwhile() -> Any:
        """Somebody else steps on between the look at the session and ours."""
        models.Session.objects.filter(key=key).update(head=first.row.parent)
        return real()

    monkeypatch.setattr(start_chat, "new_lease", meanwhile)
    for order in ({"session": key, "message": "And?"}, {"regenerate": str(first.row.key)}):
        with pytest.raises(ConflictError, match="still being written"):
            world.ask(**order)
        assert models.Message.objects.count() == 2, "of the refused one nothing stays"
    assert world.ask("A branch?", parent=str(first.row.key)).last.kind == "done"
