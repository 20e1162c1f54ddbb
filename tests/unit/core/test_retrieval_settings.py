"""Retrieval settings as people and programs post them: what no search could use is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.types import CONTEXT_TYPES, RetrievalSettings

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=3), PLAIN)
NAMES = sorted(RetrievalSettings.__dataclass_fields__)


@pytest.mark.parametrize("name", ["top_k", "rerank_top_k", "context_tokens"])
@pytest.mark.parametrize("value", [100.5, 100.0, "100", True])
def test_numbers_of_things_are_whole(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=name):
        RetrievalSettings.from_dict({name: value})


@pytest.mark.parametrize("value", ["manual", None, 3, {"manual": 1}, ["manual", 3], [["manual"]]])
def test_content_types_are_a_list_of_texts(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="content_types"):
        RetrievalSettings.from_dict({"content_types": value})


@pytest.mark.parametrize("value", ["lang", None, 3, ["lang"], [["lang", "zh"]]])
def test_metadata_is_an_object(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="metadata must be an object"):
        RetrievalSettings.from_dict({"metadata": value})


@pytest.mark.parametrize("value", ["fancy", None, 1, ["standard"]])
def test_an_unknown_layout_is_refused_when_it_is_set_and_not_at_the_first_question(
    value: Any,
) -> None:
    with pytest.raises(UnknownNameError, match="standard"):
        RetrievalSettings.from_dict({"context_type": value})
    for known in CONTEXT_TYPES:
        assert RetrievalSettings.from_dict({"context_type": known}).context_type == known


def test_what_was_stored_comes_back_as_it_was() -> None:
    settings = RetrievalSettings(
        top_k=7,
        content_types=("manual", "faq"),
        metadata={"lang": "zh", "year": 2024},
        context_type="xml",
        vector_threshold=0.5,
    )
    again = RetrievalSettings.from_dict(settings.as_dict())
    assert again == settings
    assert again.hash == settings.hash != RetrievalSettings().hash


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3))
def test_any_values_make_usable_settings_or_an_error_for_people(values: dict[str, Any]) -> None:
    try:
        settings = RetrievalSettings.from_dict(values)
    except InvalidInputError as error:
        assert str(error)
        return
    assert settings.top_k is None or type(settings.top_k) is int
    assert type(settings.rerank_top_k) is type(settings.context_tokens) is int
    assert all(isinstance(name, str) for name in settings.content_types)
    assert dict(settings.metadata) == values.get("metadata", {})
    assert len(settings.hash) == 16
