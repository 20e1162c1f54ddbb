"""Gemini's stores as the settings want them."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from rag.conf import conf
from rag.core.errors import ConfigurationError
from rag.core.file_search import GroundedQuestion
from rag.services.gemini.stores import gemini_file_search

KEY = "AIza-secret-0123456789"


def given(settings: Any, **values: object) -> None:
    settings.RAG = {**settings.RAG, **values}


def test_without_a_key_it_says_so_every_time(settings: Any) -> None:
    given(settings, GEMINI_API_KEY="")
    for _ in range(2):
        with pytest.raises(ConfigurationError) as caught:
            gemini_file_search()
        assert str(caught.value) == "No key for Gemini is set. Set GEMINI_API_KEY."


def test_it_is_made_once_and_again_when_the_settings_change(settings: Any) -> None:
    given(settings, GEMINI_API_KEY=KEY)
    first = gemini_file_search()
    assert gemini_file_search() is first
    assert getattr(first, "id") == "gemini:gemini-2.5-flash"  # noqa: B009
    given(settings, GEMINI_API_KEY=KEY, GEMINI_MODEL="gemini-3-pro")
    second = gemini_file_search()
    assert second is not first
    assert getattr(second, "id") == "gemini:gemini-3-pro"  # noqa: B009
    assert KEY not in repr(second)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"GEMINI_API_VERSION": "v9"}, "GEMINI_API_VERSION is “v9”"),
        ({"GEMINI_BASE_URL": "nowhere"}, "GEMINI_BASE_URL is no web address"),
        ({"GEMINI_API_KEY": "two words"}, "GEMINI_API_KEY holds characters that no key has"),
    ],
)
def test_a_wrong_setting_is_named(settings: Any, values: dict[str, str], words: str) -> None:
    given(settings, **{"GEMINI_API_KEY": KEY, **values})
    with pytest.raises(ConfigurationError, match=words):
        gemini_file_search()


def test_the_defaults_are_those_of_the_readme() -> None:
    assert settings.RAG["GEMINI_MODEL"] == conf().gemini_model
    assert GroundedQuestion("?", stores=["fileSearchStores/x"]).model == ""
