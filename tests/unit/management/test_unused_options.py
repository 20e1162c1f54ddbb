"""Options that would do nothing are refused by name; what was not given is passed over."""

from __future__ import annotations

from argparse import ArgumentError
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag.management.rag_command import reject_unused_options


@pytest.mark.parametrize("value", [None, False, "", []])
def test_what_was_not_given_is_passed_over(value: Any) -> None:
    reject_unused_options({"no_swap": value}, ["no_swap"], with_what="--model")


@pytest.mark.parametrize("value", [0, 0.0, 1, True, "x", ["x"]])
def test_what_was_given_is_refused_with_the_option_that_it_needs(value: Any) -> None:
    with pytest.raises(CommandError, match="^--no-swap goes with --model only.$"):
        reject_unused_options({"no_swap": value}, ["no_swap"], with_what="--model")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rag_audit", "--forget-before", "yesterday"), "“yesterday” is no day, such as 2026"),
        (("rag_eval", "--store", "x", "--retrieval", "{x"), "{x is no JSON"),
        (("rag_eval", "--store", "x", "--retrieval", "[]"), r"\[\] is no JSON object"),
        (("rag_reindex", "--store", "x", "--fresh", "--what", "all"), "not allowed with"),
        (("rag_reindex", "--store", "x", "--status", "--cancel"), "not allowed with"),
        (("rag_serve", "--port", "99999"), "ports are 0 to 65535"),
        (("rag_load", "nothing-here.dump"), "There is no file “nothing-here.dump”"),
    ],
)
def test_a_wrong_argument_gets_a_sentence(words: tuple[str, ...], said: str) -> None:

    with pytest.raises((CommandError, ArgumentError), match=said):
        call_command(*words)
