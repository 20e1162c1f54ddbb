"""The scripted chat model: keeps to the port, says what the script says, refuses a wrong script."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import ConfigurationError, InvalidInputError, ProviderError
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import Message
from rag.providers.scripted import Script, ScriptedChatModel
from rag.services.plugins import configured_plugin
from rag.services.wiring.registry import model_of_script
from tests.contract_chat import ChatModelContract, collected


class TestScriptedChatModel(ChatModelContract):
    @pytest.fixture
    def chat_model(self) -> ChatModel:
        return made(answers=[{"contains": "warranty", "answer": "It lasts two  years.\n"}])


def made(**script: Any) -> ScriptedChatModel:
    return ScriptedChatModel(Script.from_dict(script, name="test"), "test")


def ask(model: ChatModel, *texts: str) -> str:
    roles = ("user", "assistant") * len(texts)
    messages = [Message(role, text) for role, text in zip(roles, texts, strict=False)]
    return model.generate(ChatRequest(messages)).text


def test_the_first_line_whose_words_all_stand_there_is_taken() -> None:
    model = made(
        answers=[{"contains": ["a", "b"], "answer": "both"}, {"contains": "a", "answer": "one"}],
        default="none",
    )
    assert [ask(model, text) for text in ("b and a", "a", "x")] == ["both", "one", "none"]


def test_what_is_no_text_is_sent_as_json() -> None:
    model = made(answers=[{"contains": "a", "answer": {"intent": "问答", "n": [1]}}])
    assert ask(model, "a") == '{"intent": "问答", "n": [1]}'


def test_later_answers_follow_earlier_ones_in_the_messages() -> None:
    model = made(answers=[{"contains": "a", "answers": ["first", "second"]}])
    assert ask(model, "a") == "first"
    assert ask(model, "a", "first", "again") == "second"
    assert ask(model, "a", "first", "again", "second", "again") == "second"


def test_a_question_without_an_answer_is_an_error() -> None:
    with pytest.raises(ProviderError, match="no answer to “who are you”"):
        ask(made(answers=[]), "who are you")
    with pytest.raises(ProviderError, match="the model fails: it is down"):
        ask(made(answers=[{"contains": "a", "error": "it is down"}]), "a")


async def test_a_delay_is_spread_over_the_words() -> None:
    model = made(answers=[{"contains": "a", "answer": "one two three", "delay_s": 0.3}])
    started = time.monotonic()
    pieces = await collected(model.stream(ChatRequest([Message("user", "a")])))
    assert time.monotonic() - started >= 0.29
    assert [piece.text for piece in pieces] == ["one ", "two ", "three"]
    assert (pieces[-1].input_tokens, pieces[-1].output_tokens) == (1, 3)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ([], "must hold answers"),
        ({"answer": []}, "must hold answers"),
        ({"answers": "x"}, "answers must be a list"),
        ({"answers": [{"answer": "x"}]}, "line 1 must hold contains"),
        (
            {"answers": [{"contains": "a", "answer": "x"}, {"contains": "a"}]},
            "line 2 has no answer",
        ),
        ({"answers": [{"contains": "a", "answers": []}]}, "line 1 has no answer"),
        ({"answers": [{"contains": "a", "answer": "x", "delay": 1}]}, "line 1 must hold"),
        ({"answers": [{"contains": "a", "answer": "x", "delay_s": "1"}]}, "delay_s of line 1"),
    ],
)
def test_a_wrong_script_is_refused_with_its_line(script: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Script.from_dict(script, name="test")


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("answers: [{contains: a, answer: 好}]", encoding="utf-8")
    model = configured_plugin(kind="chat", name="scripted").load(str(path))
    assert model.id == f"scripted:{path}"
    assert ask(model, "a") == "好"
    assert ask(model_of_script(script={"default": "d"}, name="n"), "a") == "d"


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("gone.yaml", None, ConfigurationError, "cannot be read: No such file"),
        ("s.txt", "answers: []", InvalidInputError, "a small .yaml file"),
        ("s.yaml", "answers: [", InvalidInputError, "it is no YAML"),
        (
            "s.yaml",
            "x: !!python/object/apply:os.system ['true']",
            InvalidInputError,
            "it is no YAML",
        ),
    ],
)
def test_a_file_that_is_no_script_is_refused(
    tmp_path: Path, name: str, content: str | None, error: type[Exception], message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(error, match=message):
        configured_plugin(kind="chat", name="scripted").load(str(path))
