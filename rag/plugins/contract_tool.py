"""Contract suite of tools: tests for pytest, inherited by one subclass per tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    ForbiddenError,
    NotFoundError,
    ProviderTimeoutError,
    RAGError,
)
from rag.core.tools import call_tool, spec_of
from rag.plugins.contract_plugin import odd_texts
from rag.plugins.contract_source import CalledPluginContract


class ToolContract(CalledPluginContract):
    """What holds for every tool. To be set: ``plugin`` and ``options``, the arguments of a call.

    ``hidden_options`` are arguments whose answer ``scope()`` may have and an anonymous caller must
    not, or ``has_access_rules = False``; ``failing_options`` let what is behind the tool fail, or
    ``never_fails`` says why nothing does.
    """

    kind = "tool"

    def hidden_options(self) -> Mapping[str, Any]:
        """Return arguments whose answer an anonymous caller must not get."""
        raise NotImplementedError("hidden_options, or has_access_rules = False")

    def failing_options(self) -> Mapping[str, Any]:
        """Return arguments on which what is behind the tool fails."""
        raise NotImplementedError("failing_options, or a reason in never_fails")

    def test_a_model_can_be_told_of_it(self) -> None:
        spec = spec_of(self.plugin)
        assert len(spec.description.strip()) >= 10, (
            "the description does not say when to call the tool"
        )
        assert json.loads(json.dumps(spec.parameters)) == spec.parameters

    def test_it_answers_with_json(self) -> None:
        answer = self._call(self.options)
        assert json.loads(json.dumps(answer)) == answer, "the answer changes in JSON"

    def test_any_text_ends_in_an_answer_or_an_error_for_people(self) -> None:
        texts = [name for name, shape in self._properties().items() if shape["type"] == "string"]
        for name in texts:
            for text in odd_texts():
                try:
                    self._call({**self.options, name: text})
                except RAGError as error:
                    self._check_error(error)

    def test_arguments_that_do_not_fit_are_refused(self) -> None:
        self._refused({**self.options, "no_such_argument": 1}, "no_such_argument")

    def test_a_deadline_that_is_over_ends_the_call(self) -> None:
        try:
            self._call(self.options, Deadline(0.0))
        except ProviderTimeoutError:
            return
        raise AssertionError("the call did not end")

    def test_a_call_that_nobody_waits_for_ends(self) -> None:
        deadline = Deadline(self.timeout_s)
        deadline.cancel()
        try:
            self._call(self.options, deadline)
        except CancelledError:
            return
        raise AssertionError("the call did not end")

    def test_it_does_nothing_that_the_caller_may_not(self) -> None:
        self._skip_for("" if self.has_access_rules else "the tool has no access rules")
        hidden = self._call(self.hidden_options())
        try:
            seen = self._call(self.hidden_options(), scope=Scope.anonymous())
        except (ForbiddenError, NotFoundError) as refusal:
            self._check_error(refusal)
        else:
            assert seen != hidden, "an anonymous caller gets what is hidden"

    def test_what_fails_behind_it_is_an_error_for_people(self) -> None:
        self._skip_for(self.never_fails)
        try:
            self._call(self.failing_options())
        except RAGError as error:
            self._check_error(error)
        else:
            raise AssertionError("failing_options did not fail")

    def _call(
        self,
        arguments: Mapping[str, Any],
        deadline: Deadline | None = None,
        scope: Scope | None = None,
    ) -> dict[str, Any]:
        return call_tool(
            self.plugin(),
            arguments,
            scope=scope or self.scope(),
            deadline=deadline or Deadline(self.timeout_s),
            ports=self.ports(),
        )
