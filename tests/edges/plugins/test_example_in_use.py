"""The example package in use: loaded by settings alone, each kind takes its part end to end.

A plugin touches two files, its own and its contract test: nothing of ours knows these names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.core.access import Scope
from rag.core.plugins import CONFIGURED, PLUGINS
from rag.core.types import RetrievalSettings
from rag.plugins import load
from rag.plugins.checks import check_plugins
from rag.services.answers.question_answering import ask
from rag.services.search import retrieve
from rag.services.stores.lifecycle import create_store
from rag.services.wiring import registry as wiring
from tests.integration.index_desk import live, put, run_job

PACKAGE = Path(__file__).resolve().parents[3] / "examples/plugin_package"
CAPTION = "{n}\n00:00:0{n},000 --> 00:00:0{n},500\n{text}\n\n"
TEXTS = ("The drip line is open.", "The pump stops.", "A drip line waters each plant.")
IN_USE = {
    "EMBEDDING_MODEL": "letters:64",
    "CHAT_MODEL": "first_source:whole",
    "SPLITTER": "paragraphs",
    "PARSERS": {".srt": "subtitles"},
    "PLUGIN_OPTIONS": {"parser.subtitles": {"joined": 1}},
}


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setattr(PLUGINS, "_found", {kind: dict(of) for kind, of in PLUGINS._found.items()})
    monkeypatch.setattr(load, "_outcomes", dict(load._outcomes))
    settings.RAG = settings.RAG | {"PLUGINS": (*settings.RAG["PLUGINS"], "citable_glossary")}
    settings.RAG = settings.RAG | IN_USE
    assert load.load_plugins() == []
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "citable_glossary"]:
        del sys.modules[name]


@pytest.mark.django_db(transaction=True)
def test_each_kind_takes_its_part(in_use: None) -> None:
    store = create_store(name="videos")
    assert store.space.model == "letters:64"
    captions = [CAPTION.format(n=n, text=text) for n, text in enumerate(TEXTS, 1)]
    file = put(store, "".join(captions), "pumps.srt")
    run_job(file)
    file.refresh_from_db()
    assert file.parser == "subtitles/1"
    assert [chunk.text for chunk in live(file)] == list(TEXTS)
    scope = Scope.operator()
    found = retrieve(
        query="which plant does a drip line water",
        scope=scope,
        stores=[store],
        settings=RetrievalSettings(mode="semantic", top_k=3, rerank="word_overlap"),
    )
    assert found.rerank == "word_overlap"
    assert TEXTS[2] in found.hits[0].text
    answer = ask(question="which plant does a drip line water", scope=scope, stores=[store])
    assert answer.text.startswith("It is written: ")
    assert {citation.verdict for citation in answer.citations} == {"verified"}
    assert answer.outcome == "answered"
    assert not wiring.can_write(model_id="first_source:whole")


@pytest.mark.parametrize("kind", [*CONFIGURED, "source", "enhancer", "tool", "connector"])
def test_one_file_and_one_contract_test_are_all_there_is_of_it(kind: str, in_use: None) -> None:
    plugins = [PLUGINS.get(kind, name) for name in PLUGINS.names(kind)]
    owns = [one for one in plugins if one.__module__.startswith("citable_glossary.")]
    assert owns
    root = PACKAGE.parents[1]
    for own in owns:
        written = [
            path.relative_to(root).as_posix()
            for folder in ("examples/plugin_package", "rag", "agents", "project")
            for path in (root / folder).rglob("*.py")
            if re.search(rf"\b(class|import) {own.__name__}\b", path.read_text(encoding="utf-8"))
        ]
        file = own.__module__.replace(".", "/")
        assert set(written) == {
            f"examples/plugin_package/{file}.py",
            "examples/plugin_package/tests/test_glossary.py",
        }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"SPLITTER": "words"}, "Unknown splitter “words”. Known: book, code, laws,"),
        ({"PARSERS": {"pdf": "ghost"}}, "Unknown parser “ghost”"),
        ({"PLUGIN_OPTIONS": {"reranker.gone": {}}}, "Unknown plugin “reranker.gone”"),
        ({"PLUGIN_OPTIONS": {"reranker.llm": {"x": 1}}}, "Unknown option “reranker.llm.x”"),
        ({"PLUGIN_OPTIONS": {"reranker.llm": 3}}, "are no JSON object"),
    ],
)
def test_a_setting_that_names_nothing_is_told_by_check(
    wrong: dict[str, Any], said: str, settings: Any
) -> None:
    settings.RAG = settings.RAG | wrong
    (message,) = check_plugins()
    assert said in message.msg
    assert str(message.hint).startswith("Mend RAG_")
