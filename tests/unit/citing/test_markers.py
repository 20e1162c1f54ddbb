"""How models write citations, well or badly, and what is read of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.citation_markers import Marker, MarkerReader, read_markers

ODD = [
    "<cite",
    "</cite>",
    "<cite ",
    'doc_id="doc_01"',
    "quote='",
    '"',
    "'",
    ">",
    "/>",
    "[1]",
    "[",
    "1",
    "]",
    "【2】",
    "<cite>",
    "text。",
    "\n\n",
    "&lt;",
    "“",
    "a=",
    "\x00",
    "\ud800",
]


def markers(text: str) -> list[Marker]:
    return [part for part in read_markers(text) if isinstance(part, Marker)]


def plain(text: str) -> str:
    return "".join(part for part in read_markers(text) if isinstance(part, str))


def test_a_tag_gives_document_quote_and_claim() -> None:
    text = 'Well, <cite doc_id="doc_01" quote="wait 15 minutes">you wait</cite> then.'
    assert read_markers(text) == [
        "Well, ",
        "you wait",
        Marker("doc_01", "wait 15 minutes", "you wait"),
        " then.",
    ]


TAGS = {
    "single marks": ("<cite doc_id='doc_01' quote='the \"red\" valve'>x</cite>", 'the "red" valve'),
    "other order": ('<cite quote="red" doc_id="doc_01">x</cite>', "red"),
    "no marks around the id": ('<cite doc_id=doc_01 quote="red">x</cite>', "red"),
    "curly marks": ("<cite doc_id=“doc_01” quote=“red”>x</cite>", "red"),
    "escapes": (
        '<cite doc_id="doc_01" quote="A &lt; B &amp; &quot;C&quot;">x</cite>',
        'A < B & "C"',
    ),
    "apostrophe": ('<cite doc_id="doc_01" quote="don\'t open">x</cite>', "don't open"),
    "bare marks": ('<cite doc_id="doc_01" quote="the "red" valve">x</cite>', 'the "red" valve'),
    "one bare mark": ('<cite doc_id="doc_01" quote="a 5" pipe">x</cite>', 'a 5" pipe'),
    "bare marks first": (
        '<cite quote="the "red" valve" doc_id="doc_01">x</cite>',
        'the "red" valve',
    ),
    "greater than": ('<cite doc_id="doc_01" quote="A > B">x</cite>', "A > B"),
    "less than": ('<cite doc_id="doc_01" quote="A < B">x</cite>', "A < B"),
    "two lines": ('<cite doc_id="doc_01"\n quote="one\ntwo" >x</cite >', "one\ntwo"),
    "capitals": ('<CITE DOC_ID="doc_01" QUOTE="red">x</CITE>', "red"),
    "equals sign": ('<cite doc_id="doc_01" quote="x = 5 holds">x</cite>', "x = 5 holds"),
    "escaped marks": (
        "<cite doc_id=&quot;doc_01&quot; quote=&quot;A &amp; B&quot;>x</cite>",
        "A & B",
    ),
    "backslashes": ('<cite doc_id=\\"doc_01\\" quote=\\"red\\">x</cite>', "red"),
    "corner brackets": ("<cite doc_id=「doc_01」 quote=「红色」>x</cite>", "红色"),
    "chinese single marks": ("<cite doc_id=‘doc_01’ quote=‘红色’>x</cite>", "红色"),
    "wide equals sign": ('<cite doc_id＝"doc_01" quote＝"red">x</cite>', "red"),
    "closed with a slash": ('<cite doc_id="doc_01" quote="red" />x', "red"),
    "chinese marks": ('<cite doc_id="doc_01" quote="他说“好”">x</cite>', "他说“好”"),
}


@pytest.mark.parametrize("name", TAGS)
def test_a_tag_is_read_however_it_is_written(name: str) -> None:
    text, quote = TAGS[name]
    marker = next(part for part in read_markers(text) if isinstance(part, Marker))
    assert (marker.doc_id, marker.quote) == ("doc_01", quote)
    assert plain(text) == "x"


UNUSUAL = {
    "without its end": (
        'It <cite doc_id="doc_01" quote="red"</cite>.',
        "It .",
        ("doc_01", "red", "It"),
    ),
    "without its end, before the claim": (
        '<cite doc_id="doc_01" quote="red" It is red</cite>.',
        " It is red.",
        ("doc_01", "red", "It is red"),
    ),
    "never ended": (
        'It is red. <cite doc_id="doc_01" quote="red"\n\nAnd more.',
        "It is red. \n\nAnd more.",
        ("doc_01", "red", "It is red."),
    ),
    "citation": ('<citation doc_id="doc_01" quote="red">x</citation>', "x", ("doc_01", "red", "x")),
    "escaped": (
        "&lt;cite doc_id=&quot;doc_01&quot; quote=&quot;a &amp;gt; b&quot;&gt;x&lt;/cite&gt;",
        "x",
        ("doc_01", "a > b", "x"),
    ),
    "escaped brackets": (
        '&lt;cite doc_id="doc_01" quote="red"&gt;x&lt;/cite&gt;',
        "x",
        ("doc_01", "red", "x"),
    ),
    "without words": ('It <cite doc_id="doc_01" quote="red"/>.', "It .", ("doc_01", "red", "It")),
    "other names": ('<cite source="doc_01" text="red">x</cite>', "x", ("doc_01", "red", "x")),
    "an id alone": ("<cite doc_01>x</cite>", "x", ("doc_01", "", "x")),
    "an id for a claim": (
        "It stops <cite>doc_01</cite>.",
        "It stops .",
        ("doc_01", "", "It stops"),
    ),
    "a number for a claim": (
        'It stops <cite quote="red">[1]</cite>.',
        "It stops .",
        ("1", "red", "It stops"),
    ),
    "a form": (
        'It stops <cite doc_id="..." quote="...">...</cite>.',
        "It stops .",
        ("", "", "It stops"),
    ),
    "round": ("It stops (doc_01).", "It stops .", ("doc_01", "", "It stops")),
    "source": ("It stops [Source 1].", "It stops .", ("1", "", "It stops")),
    "source with a colon": ("It stops (Source: doc_01).", "It stops .", ("doc_01", "", "It stops")),
    "cite with a colon": ("It stops [cite: 1].", "It stops .", ("1", "", "It stops")),
    "chinese source": ("停机[来源1]。", "停机。", ("1", "", "停机")),
    "chinese round": ("停机（资料 1）。", "停机。", ("1", "", "停机")),
    "with a note": ("It stops 【1†source】.", "It stops .", ("1", "", "It stops")),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_odd_markers_are_read_and_never_shown(name: str) -> None:
    text, shown, marker = UNUSUAL[name]
    assert plain(text) == shown
    assert markers(text) == [Marker(*marker)]


def test_a_form_without_anything_to_prove_is_left_out() -> None:
    assert read_markers('<cite doc_id="..." quote="...">...</cite>') == []


def test_a_tag_without_quote_has_its_claim() -> None:
    assert markers('<cite doc_id="doc_02">the claim</cite>') == [Marker("doc_02", "", "the claim")]
    assert markers("<cite>the claim</cite>") == [Marker("", "", "the claim")]


def test_a_tag_that_closes_itself_takes_its_sentence() -> None:
    text = 'First. You wait <cite doc_id="doc_01" quote="wait"/>.'
    assert markers(text) == [Marker("doc_01", "wait", "You wait")]


def test_nested_tags_are_two_citations() -> None:
    text = '<cite doc_id="a" quote="1">out <cite doc_id="b" quote="2">in</cite> end</cite>.'
    assert markers(text) == [Marker("b", "2", "in"), Marker("a", "1", "out in end")]
    assert plain(text) == "out in end."


def test_an_open_tag_ends_with_the_text() -> None:
    text = 'Well, <cite doc_id="doc_01" quote="wait">you wait'
    assert read_markers(text) == ["Well, ", "you wait", Marker("doc_01", "wait", "you wait")]


def test_a_tag_that_breaks_off_is_dropped_and_a_lone_end_too() -> None:
    assert read_markers('You wait. <cite doc_id="doc_01" quo') == ["You wait. "]
    assert plain("a</cite>b") == "ab"


def test_what_is_no_tag_stays() -> None:
    for text in (
        "<cited> x",
        "a <citeX b",
        "list[0x1]",
        "[2024]",
        "[1](http://x)",
        "【资料】",
        "(1) first, (2) second",
        "[0, 5) and (1, 2)",
        "（见资料1的附件）",
        "a (see document 3 of them)",
        "AT&T &lt;b&gt; &amp; <reference",
        "[]",
    ):
        assert read_markers(text) == [text]
    text = "<cite never closed\n\n" + "word " * 50
    assert plain(text) == text


NUMBERS = {
    "before the stop": ("It lasts two years [1].", ["It lasts two years"]),
    "behind the stop": ("It lasts two years. [1]", ["It lasts two years."]),
    "chinese": ("先停机。须等待15分钟。[1]", ["须等待15分钟。"]),
    "chinese brackets": ("先停机。须等待15分钟【1】。", ["须等待15分钟"]),
    "only its own sentence": ("Stop it. Then wait [1]. Go.", ["Then wait"]),
    "two in a row": ("Then wait [1][2].", ["Then wait", "Then wait"]),
    "a list": ("Then wait [1, 2].", ["Then wait", "Then wait"]),
    "a bullet": ("Steps:\n- Then wait [1]", ["Then wait"]),
    "a numbered line": ("1. Then wait [1]\n2、再等 [2]", ["Then wait", "再等"]),
    "a decimal number": ("The dose is 1.5 mg [1].", ["The dose is 1.5 mg"]),
    "an abbreviation": ("See Dr. Li first [1].", ["See Dr. Li first"]),
    "nothing before it": ("[1]", [""]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_bare_number_is_about_the_sentence_before_it(name: str) -> None:
    text, claims = NUMBERS[name]
    assert [marker.claim for marker in markers(text)] == claims


def test_bare_numbers_name_their_documents() -> None:
    assert [marker.doc_id for marker in markers("a [1] b [12, 3] c【4】")] == ["1", "12", "3", "4"]


def test_documents_are_named_in_brackets_too() -> None:
    text = "a [doc_01] b [^2] c ［3］ d [doc_1, doc_12]"
    assert [marker.doc_id for marker in markers(text)] == ["doc_01", "2", "3", "doc_1", "doc_12"]


def test_halves_of_characters_are_joined_and_what_nothing_can_keep_is_dropped() -> None:
    assert plain("pump \ud83d\ude00 \0hall \ud83d end \ude00") == "pump \U0001f600 hall  end "


def test_a_very_long_sentence_is_a_claim_of_a_thousand_characters() -> None:
    (marker,) = markers("水" * 5000 + "[1]")
    assert marker.claim == "水" * 1000


@given(st.lists(st.sampled_from(ODD) | st.text(max_size=5), max_size=40))
def test_no_answer_raises(pieces: list[str]) -> None:
    parts = read_markers("".join(pieces))
    assert all(isinstance(part, str | Marker) for part in parts)


@given(st.text(st.characters(codec="utf-8", exclude_characters="<[【［(（&\0"), max_size=200))
def test_text_without_markers_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "<cite ",
        '<cite a="',
        "[1]",
        "<cite>",
        '<cite a="b=">',
        "a=\"'",
        "(source ",
        "[1, ",
        "&lt;cite ",
        "<cite>...",
        '<cite doc_id="a"',
        "<cite>  doc_",
    ],
)
def test_hostile_repetition_is_read_in_time(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    started = time.process_time()
    read_markers(text)
    assert time.process_time() - started < 3.0


def test_a_number_is_a_claim_where_the_document_is_named() -> None:
    tag = '<cite doc_id="doc_02" quote="Wait 50 minutes">50</cite>'
    assert read_markers(tag) == ["50", Marker("doc_02", "Wait 50 minutes", "50")]


CODE = {
    "a span": "Write `rows[1]` for it.",
    "a span of two backticks": "Write ``rows[1] `x` [2]`` for it.",
    "a fence": "Do this:\n```python\nprint(rows[1])\n```\n",
    "another fence": "~~~\nsee [1] and [来源1]\n~~~\n",
    "a tag of a page": "Use `<cite>Moby Dick</cite>` there.",
    "a fence of a page": "```html\n<p><cite>Moby Dick</cite></p>\n```\nDone.",
    "a form": 'Cite as `<cite doc_id="…" quote="…">`.',
}


@pytest.mark.parametrize("name", CODE)
def test_code_holds_no_marker(name: str) -> None:
    text = CODE[name]
    assert "".join(map(str, read_markers(text))) == text
    reader, pieces = MarkerReader(), []
    for sign in text:
        pieces += reader.feed(sign)
    assert "".join(map(str, [*pieces, *reader.feed("", is_last=True)])) == text


@pytest.mark.parametrize(
    "text",
    [
        "It`s so.[1]",
        "It`s so.[1]\nA `b` c.",
        "Use `rows[0]`.[1]",
        "```\nx[0]\n```\nIt is so.[1]",
        "```markdown\nIt is so.[1]\n```\n",
        "```\nx\n```\n```\ny\n```\nIt is so.[1]",
    ],
)
def test_a_marker_outside_of_code_is_read_whatever_the_pieces(text: str) -> None:
    whole = [one for one in read_markers(text) if isinstance(one, Marker)]
    reader, parts = MarkerReader(), []
    for sign in text:
        parts += reader.feed(sign)
    parts += reader.feed("", is_last=True)
    assert [one.doc_id for one in whole] == ["1"]
    assert [one for one in parts if isinstance(one, Marker)] == whole


def test_a_citation_that_names_and_quotes_counts_in_a_fence_too() -> None:
    tag = '<cite doc_id="doc_02" quote="Wait">Wait.</cite>'
    assert Marker("doc_02", "Wait", "Wait.") in read_markers(f"```\n{tag}\n```\n")
