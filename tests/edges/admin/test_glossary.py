"""The interface says each thing as docs/glossary.md does, in both languages."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.edges.catalogue import BASE_DIR, LOCALE, messages_of_ours, read_po

PO = read_po(LOCALE / "django.po")


class Term(NamedTuple):
    english: str
    chinese: str
    meaning: str
    never: tuple[str, ...]


def terms() -> list[Term]:
    rows = re.findall(
        r"^\| (?!English|---)(.+?) \|$", (BASE_DIR / "docs/glossary.md").read_text(), re.M
    )
    found = [[cell.strip() for cell in f"{row} ".split("| ")] for row in rows if "---" not in row]
    return [
        Term(english, chinese, meaning, tuple(filter(None, never.split(", "))))
        for english, chinese, meaning, never in found
    ]


TERMS = terms()


def test_the_table_is_read_whole_and_each_word_has_one_thing() -> None:
    assert len(TERMS) > 50
    for column in ("english", "chinese", "meaning"):
        said = [getattr(term, column).lower() for term in TERMS]
        assert [one for one in said if said.count(one) > 1 or not one] == []


def test_labels_are_said_and_translated_as_the_glossary_says() -> None:
    for term in TERMS:
        translated = {PO[key][0] for key in PO if key.lower() == term.english.lower()}
        assert translated <= {term.chinese}, term
    labels = "\n".join(messages_of_ours()).lower()
    missing = [term.english for term in TERMS if term.english.lower() not in labels]
    assert missing == []


@pytest.mark.parametrize("term", [one for one in TERMS if one.never], ids=lambda one: one.english)
def test_no_text_says_it_in_another_way(term: Term) -> None:
    for word in term.never:
        is_english = word.isascii()
        whole = re.compile(rf"\b{re.escape(word)}\b" if is_english else re.escape(word), re.I)
        texts = list(PO) if is_english else [text for texts in PO.values() for text in texts]
        assert [
            text
            for text in texts
            if whole.fullmatch(text) or ((" " in word or not is_english) and whole.search(text))
        ] == []
