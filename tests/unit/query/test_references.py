"""Things that a question names: found, recognized as people write them, told when nobody does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.analysis import MissingTerm
from rag.core.hits import Hit
from rag.stages.query.references import (
    MAX_REFERENCES,
    find_references,
    missing_references,
    nearest_mention,
)


def named(query: str) -> list[tuple[str, str]]:
    return [(one.text, one.kind) for one in find_references(query)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("What is the volume of the HX-900?", [("HX-900", "identifier")]),
        ("HX-900的容积是多少？", [("HX-900", "identifier")]),
        ("What does article 47 say?", [("article 47", "article")]),
        ("第九十三条怎么规定？", [("第九十三条", "article")]),
        ("What happened in March 1987?", [("1987", "date")]),
        ("1987年的容积是多少？", [("1987", "date")]),
        (
            "Who is Kawann Short of the Panthers?",
            [("Kawann Short", "name"), ("Panthers", "name")],
        ),
        ("Peyton Manning是谁？", [("Peyton Manning", "name")]),
        ("What Is The Answer Of Germany", []),
        ("Germany", []),
        ("What is said in section 3?", []),
        ("How old is the pump?", []),
        ("泵多久保养一次？", []),
        ("", []),
    ],
)
def test_things_are_found(query: str, found: list[tuple[str, str]]) -> None:
    assert named(query) == found


@pytest.mark.parametrize(
    ("query", "text", "is_held"),
    [
        ("HX-900", "The hx900 leaks.", True),
        ("HX-900", "HX 900的容积", True),
        ("HX-900", "HX-9000 and XHX-900", False),
        ("HX-90", "The HX-900 leaks.", False),
        ("HX-900", "The HX-900B leaks.", False),
        ("第九十三条", "第93条 阀门", True),
        ("第93条", "第九十三条 阀门", True),
        ("第一百零二条", "Article 102 of the act", True),
        ("article 12", "第十二条", True),
        ("article 12", "第十二章", False),
        ("article 12", "Article 120", False),
        ("article 4", "Article 4.2", False),
        ("in 1987?", "since 1987.", True),
        ("in 1987?", "no. 19870", False),
        ("Is it in Germany?", "The German army", True),
        ("Who is John Smith?", "Smith was called John.", True),
        ("Who is John Smith?", "Smith was called Jim.", False),
        # Chinese has no blank before a name in Latin letters.
        ("Siemens 的泵多少钱？", "泵由Siemens制造", True),
        ("²AAA一", "²AAA一", True),
    ],
)
def test_a_text_holds_what_it_writes_in_another_form(query: str, text: str, is_held: bool) -> None:
    left = missing_references(find_references(query), [Hit(text=text, rank=1)])
    assert (not left) is is_held


def test_headings_and_names_of_files_count() -> None:
    asked = find_references("What is HX-900 and QX-12?")
    hit = Hit(text="x", rank=1, file_name="hx-900.pdf", heading_path=("Pump QX-12",))
    assert missing_references(asked, [hit]) == []
    assert missing_references(asked, []) == asked


def test_the_nearest_code_is_told_where_one_is_like_it() -> None:
    (asked,) = find_references("What is the volume of HX-900?")
    hits = [Hit(text="The HX-250, the HX-400 and ZZ-1.", rank=1), Hit(text="AB-12345", rank=2)]
    assert nearest_mention(asked, hits) == MissingTerm("HX-900", "HX-400")
    assert nearest_mention(asked, hits[1:]) == MissingTerm("HX-900")
    (year,) = find_references("in 1987?")
    assert nearest_mention(year, hits) == MissingTerm("1987")


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    found = find_references(text)
    assert len(found) <= MAX_REFERENCES
    for one in found:
        assert one.lookups and all(one.lookups)
        assert one.kind == "article" or one.is_in(text)


def test_a_long_question_is_read_soon() -> None:
    assert find_references("A1-" * 4000 + " 第" + "九" * 4000) is not None
