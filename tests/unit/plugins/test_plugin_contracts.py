"""The contracts themselves: a good plugin passes each test, and each test catches a bad one."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import SkipTest

import pytest

from rag.core.access import Scope
from rag.core.errors import ConfigurationError, ProviderError, UnknownNameError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.sources import SourceQuery, SourceResult
from rag.core.tools import ToolCall
from rag.plugins.contract_source import LentPorts
from tests.contracts import Ask, EnhancerContract, SourceContract, ToolContract

ENTRIES = {"pump": "The pump runs four hours.", "水泵": "水泵每天运行四小时。", "salary": "Secret."}


class Good:
    """Looks entries up; waits when asked to, fails when asked to."""

    name = "good"
    label = "Good"

    @dataclass(frozen=True)
    class Options:
        top_k: int = option(5, help="How many.", minimum=1, maximum=50)
        order: str = option("up", help="Which way.")
        key: str = option("KEY", help="The key.", is_secret=True)

    def __init__(self, options: Options) -> None:
        self.options = options

    def retrieve(self, query: SourceQuery) -> SourceResult:
        query.deadline.check()
        if "wait" in query.text:
            woken = threading.Event()
            with query.deadline.on_cancel(woken.set):
                woken.wait(min(query.deadline.remaining_s, 5.0))
            query.deadline.check()
        if "fail" in query.text:
            query.ports.secret(self.options.key)
            raise ProviderError("The shop is closed.", hint="Try tomorrow.")
        found = [term for term in ENTRIES if term in query.text]
        if query.scope == Scope.operator():
            return self.result(found)
        return self.result([term for term in found if term != "salary"])

    def result(self, found: list[str]) -> SourceResult:
        return SourceResult(
            tuple(
                Hit(text=ENTRIES[term], rank=rank, source=self.name, external_id=term)
                for rank, term in enumerate(found, 1)
            )
        )


class TestGood(SourceContract):
    plugin = Good
    secrets = {"KEY": "hunter2"}

    def query_with_hits(self) -> str:
        return "pump or 水泵?"

    def query_without_hits(self) -> str:
        return "password?"

    def hidden_query(self) -> str:
        return "salary?"

    def slow_query(self) -> Ask:
        return Ask("wait", options={"top_k": 3})

    def failing_query(self) -> str:
        return "fail"


def test_each_test_of_the_good_one_passes() -> None:
    names = [name for name in dir(TestGood) if name.startswith("test_")]
    assert len(names) >= 16
    for name in names:
        getattr(TestGood(), name)()


def changed(change: Callable[[SourceQuery, SourceResult], Any]) -> type[Any]:
    """Return the good source with its result changed."""

    class Bad(Good):
        def retrieve(self, query: SourceQuery) -> Any:
            return change(query, super().retrieve(query))

    return Bad


def with_hits(**parts: Any) -> type[Any]:
    def change(_: SourceQuery, result: SourceResult) -> SourceResult:
        return SourceResult(tuple(dataclasses.replace(hit, **parts) for hit in result.hits))

    return changed(change)


class Deaf(Good):
    def retrieve(self, query: SourceQuery) -> SourceResult:
        if "wait" in query.text:
            time.sleep(3)
        return self.result([term for term in ENTRIES if term in query.text])


class Crashes(Good):
    def retrieve(self, query: SourceQuery) -> SourceResult:
        query.deadline.check()
        if not query.text.isprintable() or "fail" in query.text:
            raise ValueError("cannot read that")
        return super().retrieve(query)


class Tells(Good):
    def retrieve(self, query: SourceQuery) -> SourceResult:
        if "fail" in query.text:
            raise ProviderError("Key {key} refused", key=query.ports.secret("KEY"))
        return super().retrieve(query)


class Open(Good):
    def retrieve(self, query: SourceQuery) -> SourceResult:
        return super().retrieve(dataclasses.replace(query, scope=Scope.operator()))


class NotSafe(Good):
    def retrieve(self, query: SourceQuery) -> SourceResult:
        self.text = query.text
        time.sleep(0.01)
        return super().retrieve(dataclasses.replace(query, text=self.text))


class Lax(Good):
    @dataclass(frozen=True)
    class Options(Good.Options):
        top_k: int = option(0, help="", minimum=1)


def numbered_from_zero(_: SourceQuery, result: SourceResult) -> SourceResult:
    hits = (dataclasses.replace(hit, rank=n) for n, hit in enumerate(result.hits))
    return SourceResult(tuple(hits))


@pytest.mark.parametrize(
    ("plugin", "test", "said"),
    [
        (
            changed(lambda q, r: list(r.hits)),
            "test_a_question_it_knows_has_ranked_hits",
            "returned list",
        ),
        (
            changed(lambda q, r: SourceResult()),
            "test_a_question_it_knows_has_ranked_hits",
            "found nothing",
        ),
        (changed(numbered_from_zero), "test_a_question_it_knows_has_ranked_hits", None),
        (with_hits(text=" "), "test_a_question_it_knows_has_ranked_hits", "has no text"),
        (with_hits(source="other"), "test_a_question_it_knows_has_ranked_hits", "is of “other”"),
        (with_hits(score=float("nan")), "test_a_question_it_knows_has_ranked_hits", "nan"),
        (with_hits(data={"when": {1, 2}}), "test_its_hits_survive_json", None),
        (with_hits(data={"pair": (1, 2)}), "test_its_hits_survive_json", None),
        (
            with_hits(metadata={"asked with": "hunter2"}),
            "test_its_hits_survive_json",
            "shows a secret",
        ),
        (
            changed(lambda q, r: r if r.hits else None),
            "test_nothing_found_is_an_empty_result",
            "NoneType",
        ),
        (
            changed(lambda q, r: r if r.hits else SourceResult(notes=("",))),
            "test_nothing_found_is_an_empty_result",
            None,
        ),
        (Crashes, "test_any_question_ends_in_a_result_or_an_error_for_people", "cannot read that"),
        (Deaf, "test_a_deadline_that_is_over_ends_the_call_at_once", "no timeout"),
        (Deaf, "test_a_call_that_nobody_waits_for_ends_at_once", "not cancelled"),
        (Deaf, "test_a_running_call_can_be_cancelled", "not cancelled"),
        (Deaf, "test_a_slow_call_ends_at_its_deadline", "went on after its deadline"),
        (Open, "test_who_may_not_see_a_hit_does_not_get_it", "an outsider sees"),
        (Crashes, "test_what_fails_behind_it_is_an_error_for_people", "ValueError"),
        (Tells, "test_what_fails_behind_it_is_an_error_for_people", "shows a secret"),
        (Deaf, "test_what_fails_behind_it_is_an_error_for_people", "no error for people: None"),
        (NotSafe, "test_threads_get_what_one_caller_gets", "other hits"),
        (Lax, "test_each_option_says_what_it_is", "without help: top_k"),
        (Lax, "test_defaults_keep_the_limits_of_their_options", "“top_k” of good is 0"),
        (type("NoLabel", (Good,), {"label": ""}), "test_it_can_be_filed", "the label is empty"),
        (type("BadName", (Good,), {"name": "Bad Name"}), "test_it_can_be_filed", "“Bad Name”"),
    ],
)
def test_a_bad_source_is_caught(plugin: type[Any], test: str, said: str | None) -> None:
    suite = type("TestBad", (TestGood,), {"plugin": plugin})()
    with pytest.raises(Exception, match=said) as caught:
        getattr(suite, test)()
    assert not isinstance(caught.value, SkipTest | AttributeError | NotImplementedError)


def test_a_slow_query_that_is_not_slow_proves_nothing() -> None:
    suite = type("TestBad", (TestGood,), {"slow_query": lambda self: "pump"})()
    with pytest.raises(AssertionError, match="slow_query was over .* 1 hits"):
        suite.test_a_running_call_can_be_cancelled()


def test_a_hidden_query_that_nobody_sees_proves_nothing() -> None:
    suite = type("TestBad", (TestGood,), {"hidden_query": lambda self: "password"})()
    with pytest.raises(AssertionError, match="finds nothing even for those"):
        suite.test_who_may_not_see_a_hit_does_not_get_it()


@pytest.mark.parametrize(
    ("declined", "test"),
    [
        ({"has_access_rules": False}, "test_who_may_not_see_a_hit_does_not_get_it"),
        ({"is_never_slow": "in memory"}, "test_a_running_call_can_be_cancelled"),
        ({"is_never_slow": "in memory"}, "test_a_slow_call_ends_at_its_deadline"),
        ({"never_fails": "nothing behind"}, "test_what_fails_behind_it_is_an_error_for_people"),
    ],
)
def test_what_is_neither_set_nor_declined_fails(declined: dict[str, Any], test: str) -> None:
    bare = type("TestBare", (SourceContract,), {"plugin": Good})
    with pytest.raises(NotImplementedError):
        getattr(bare(), test)()
    with pytest.raises(SkipTest):
        getattr(type("TestBare", (bare,), declined)(), test)()


def test_threads_are_left_as_the_author_wants() -> None:
    left: list[int] = []
    suite = type(
        "TestLeft", (TestGood,), {"leave_thread": lambda self: left.append(threading.get_ident())}
    )()
    suite.test_threads_get_what_one_caller_gets()
    assert len(left) == 8
    assert threading.get_ident() not in left


def test_lent_ports_lend_secrets_and_say_what_to_do_for_more() -> None:
    ports = LentPorts({"KEY": "x"})
    assert ports.secret("KEY") == "x"
    with pytest.raises(UnknownNameError, match="Unknown secret “NO”. Known: KEY"):
        ports.secret("NO")
    uses: Iterator[Callable[[], Any]] = iter(
        (
            lambda: ports.search("x", scope=None),
            lambda: ports.embed_query("x"),
            lambda: ports.fetch(None, deadline=None),  # type: ignore[arg-type]
        )
    )
    for use in uses:
        with pytest.raises(ConfigurationError, match="Override ports"):
            use()


def enhancer(enhance: Callable[[Any, str, str], Any]) -> type[Any]:
    parts = {"name": "bad", "label": "Bad", "Options": dataclasses.make_dataclass("Options", [])}
    made = {**parts, "enhance": enhance, "__init__": lambda self, options: None}
    return type("Bad", (), made)


@pytest.mark.parametrize(
    ("enhance", "test"),
    [
        (lambda s, p, c: f"{c}\n{p}", "test_without_context_the_prompt_is_unchanged"),
        (
            lambda s, p, c: c and (c + "\n{p}").format(p=p),
            "test_prompt_and_context_stand_in_the_result_as_they_came",
        ),
        (
            lambda s, p, c: f"{c.strip()}\n{p}",
            "test_prompt_and_context_stand_in_the_result_as_they_came",
        ),
        (
            lambda s, p, c: f"{c}\n{p.strip()}",
            "test_prompt_and_context_stand_in_the_result_as_they_came",
        ),
        (lambda s, p, c: None, "test_prompt_and_context_stand_in_the_result_as_they_came"),
        (lambda s, p, c: f"{c}{p}{time.monotonic_ns()}", "test_equal_input_gives_an_equal_result"),
    ],
)
def test_a_bad_enhancer_is_caught(enhance: Any, test: str) -> None:
    suite = type("TestBad", (EnhancerContract,), {"plugin": enhancer(enhance)})()
    with pytest.raises((AssertionError, KeyError, IndexError)):
        getattr(suite, test)()


class Tool:
    name, label, description = "tool", "Tool", "Gives back what it is given."

    @dataclass
    class Options:
        text: str = option("", help="What.")

    def run(self, call: ToolCall) -> Any:
        return {"text": call.arguments.text}


@pytest.mark.parametrize(
    ("changes", "test"),
    [
        ({"description": "x"}, "test_a_model_can_be_told_of_it"),
        ({"run": lambda self, call: {1: "x"}}, "test_it_answers_with_json"),
        (
            {"run": lambda self, call: {"x": call.arguments.text.encode("ascii").decode()}},
            "test_any_text_ends_in_an_answer_or_an_error_for_people",
        ),
        ({}, "test_it_does_nothing_that_the_caller_may_not"),
        ({}, "test_what_fails_behind_it_is_an_error_for_people"),
    ],
)
def test_a_bad_tool_is_caught(changes: dict[str, Any], test: str) -> None:
    hooks = {"hidden_options": lambda self: {"text": "x"}, "failing_options": lambda self: {}}
    plugin = type("Bad", (Tool,), changes)
    suite = type("TestBad", (ToolContract,), {"plugin": plugin, **hooks})()
    with pytest.raises((AssertionError, ValueError)):
        getattr(suite, test)()
