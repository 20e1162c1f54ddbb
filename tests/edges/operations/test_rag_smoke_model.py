"""The smoke test of a chat model: the demo's questions to a local OpenAI-compatible server."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag.management.commands.rag_demo import FOLDER
from tests.fakes.openai_server import OpenAIServer, Script

pytestmark = pytest.mark.django_db(transaction=True)
ROWS = json.loads((FOLDER / "smoke_questions.json").read_text(encoding="utf-8"))["questions"]
HAN = re.compile("[\u4e00-\u9fff]")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def smoke(server: OpenAIServer | None, settings: Any, *words: str) -> str:
    settings.RAG = {
        **settings.RAG,
        "EMBEDDING_MODEL": "use:multilingual-v3",
        "CHAT_MODEL": "openai_compatible:tiny" if server else "extractive:sentences",
        "OPENAI_BASE_URL": server.url if server else "",
    }
    said = io.StringIO()
    call_command("rag_smoke_model", *words, stdout=said, stderr=said)
    return said.getvalue()


def quoting(asked: dict[str, Any]) -> Script:
    """Cite the first sentence of the first document, or say nothing of it."""
    prompt = asked["messages"][-1]["content"]
    match = re.search(r"(?m)^[^<>\n]{20,200}[.。]$", prompt)
    if match is None:
        return Script(pieces=("Mars ", "owns it."))
    sentence = match[0].strip()
    return Script(pieces=(f'<cite doc_id="doc_01" quote="{sentence}">{sentence}</cite>',))


def row(said: str, name: str) -> list[str]:
    found = re.search(rf"(?m)^{re.escape(name)}\s{{2,}}(.+)$", said)
    assert found, (name, said)
    return re.split(r"\s{2,}", found[1].strip())


def test_sixty_questions_in_both_languages_are_of_three_kinds() -> None:
    assert len(ROWS) == 60 and len({one["question"] for one in ROWS}) == 60
    n_chinese = sum(bool(HAN.search(one["question"])) for one in ROWS)
    assert n_chinese == 30
    kinds = [one["kind"] for one in ROWS]
    assert [kinds.count(kind) for kind in ("answered", "off_topic", "absent")] == [44, 8, 8]


def test_it_tells_each_answer_and_sums_them_up(
    server: OpenAIServer, fresh_wiring: None, settings: Any
) -> None:
    server.respond = quoting
    said = smoke(server, settings, "--limit", "10")
    assert "10 questions to openai_compatible:tiny" in said
    for number, asked in enumerate(ROWS[:10], start=1):
        assert f"{number}/10 [{asked['kind']}] {asked['question']}" in said
    assert len(re.findall(r"first token (?:-|[\d.]+ s), in all [\d.]+ s", said)) == 10
    verdicts = ("grounded", "partly", "ungrounded", "not_found", "failed")
    assert sum(int(row(said, name)[2]) for name in verdicts) == 10
    held, n_citations = map(int, row(said, "citations that hold")[2].split(" of "))
    assert 0 < held <= n_citations
    assert row(said, "off-topic refused")[2].endswith(" of 2")
    assert re.fullmatch(r"[\d.]+ / [\d.]+", row(said, "in all, s: p50 / p95")[2])


def test_without_a_model_it_says_so_and_indexes_nothing(fresh_wiring: None, settings: Any) -> None:
    with pytest.raises(CommandError, match=r"^No chat model is configured\. Set RAG_CHAT_MODEL="):
        smoke(None, settings)


def test_an_answer_that_fails_is_told_and_a_service_that_is_down_ends_it(
    server: OpenAIServer, fresh_wiring: None, settings: Any
) -> None:
    server.chat = Script(ending="error")
    with pytest.raises(CommandError, match=r"Check the network and RAG_OPENAI_BASE_URL\."):
        smoke(server, settings, "--limit", "10")
