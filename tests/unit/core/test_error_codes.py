"""Each class of error has one word for programs, the same over HTTP and in events of runs."""

from __future__ import annotations

import pytest

from agents.runtime.event_errors import error_from_event
from rag.core import errors
from rag.core.errors import LimitError, RAGError, UnknownNameError

CLASSES = [
    cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, RAGError)
]


def test_each_class_has_a_code_of_its_own() -> None:
    codes = [cls.__dict__["code"] for cls in CLASSES]
    assert len(set(codes)) == len(codes) == 12


@pytest.mark.parametrize("cls", CLASSES)
def test_an_event_tells_the_class_that_it_was_made_of(cls: type[RAGError]) -> None:
    made = (
        UnknownNameError("mode", "x", ["y"])
        if cls is UnknownNameError
        else cls("No {name}.", name="a")
    )
    read = error_from_event({"code": made.code, "error": made.as_dict()})
    assert str(read) == str(made)
    assert isinstance(made, type(read)) and (type(read) is cls or cls is UnknownNameError)


def test_what_passes_by_itself_is_told_apart_from_what_is_too_large() -> None:
    assert LimitError("Too large.").code == "too_large"
    later = LimitError("Come later.", retry_after_s=5)
    assert later.code == "rate_limited"
    read = error_from_event({"code": later.code, "error": later.as_dict()})
    assert read.code == "rate_limited" and isinstance(read, LimitError)
