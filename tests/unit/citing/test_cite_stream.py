"""An answer in pieces gives what the whole text gives, however it is cut."""

from __future__ import annotations

import html
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.core.types import Citation
from rag.stages.citing import citation_markers as markers
from rag.stages.citing.citation_markers import Marker, MarkerReader, read_markers
from rag.stages.citing.verify import AnswerWriter
from tests.unit.passages import make_passages, verify_citations

PASSAGES = make_passages(
    "The pump stops. Wait 15 minutes until the motor is cool. 他说“好”。",
    "A < B & “C”. 月费为 3,850 元。",
)
ANSWERS = [
    'So <cite doc_id="doc_01" quote="The pump stops.">it stops</cite>, then wait [1].',
    "<cite quote='The pump stops.' doc_id='doc_1'>it stops</cite>。月费为3,850元【2】。",
    f'<cite doc_id="doc_02" quote="{html.escape("A < B & “C”.")}">A is less</cite>',
    '<cite doc_id="doc_02" quote="A < B & “C”.">A < B</cite > and 1 < 2, a<b, [link](x) [1](y)',
    "<cite doc_id=“doc_01” quote=“他说“好”。”>好</cite>",
    '<cite doc_id="a">out <cite doc_id="doc_01" quote="The pump stops.">in</cite> end</cite>.',
    'Never closed: <cite doc_id="doc_01" quote="The pump stops.">it stops. And so on [1]',
    'Broken off: <cite doc_id="doc_01" quote="The pu',
    "<cite without end\n\n then text </cite> <citeX> </ci <c < [ [1 【 [1, 2] [doc_02]",
    "Smile \ud83d\ude00 and \ud83d half \0 [1].",
    '<CITE DOC_ID="1" QUOTE="The pump stops."/>',
    'So <cite doc_id="doc_01" quote="The pump stops."</cite> it is (doc_01), [Source 1] 停机（资料1）。',
    "&lt;cite doc_id=&quot;doc_01&quot; quote=&quot;The pump stops.&quot;&gt;it stops&lt;/cite&gt;",
    '<cite doc_id="..." quote="...">...</cite> <cite>doc_01</cite> <ref id=1>it</ref> [cite: 1, 2]',
    'It stops. <cite doc_id="doc_01" quote="The pump stops."\n\nAnd so on 【1†L1-L3】',
    '<cite doc_id=\\"doc_01\\" quote=\\"The pump stops.\\">x</cite>',
]


def joined(parts: list[str | Citation]) -> tuple[str, tuple[Citation, ...]]:
    text = "".join(part for part in parts if isinstance(part, str))
    return text, tuple(part for part in parts if isinstance(part, Citation))


def stream(pieces: list[str]) -> list[str | Citation]:
    reader = AnswerWriter(PASSAGES)
    parts = [part for piece in pieces for part in reader.feed(piece)]
    return parts + reader.finish()


def merged(parts: list[str | Marker]) -> list[str | Marker]:
    out: list[str | Marker] = []
    for part in parts:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        else:
            out.append(part)
    return out


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_cut_in_two_gives_the_whole(answer: str) -> None:
    whole = verify_citations(answer, PASSAGES)
    for at in range(len(answer) + 1):
        assert joined(stream([answer[:at], answer[at:]])) == whole


@pytest.mark.parametrize("answer", ANSWERS)
def test_character_by_character_gives_the_whole(answer: str) -> None:
    assert joined(stream(list(answer))) == verify_citations(answer, PASSAGES)


PIECES = [
    "<cite ",
    'doc_id="doc_01"',
    ' quote="',
    '">',
    "</cite>",
    "</ci",
    "te  >",
    "<cite",
    "[",
    "1",
    "]",
    "(",
    "【2】",
    "[1, 2]",
    "doc_",
    ", ",
    "、",
    "<",
    "/>",
    "&quot;",
    "“",
    "'",
    "The pump stops.",
    "\n\n",
    "\0",
    "\ud83d",
    "\ude00",
    " ",
    "a=",
    '\\"',
    "水",
    ">",
    "(",
    ")",
    "Source ",
    "资料",
    "&lt;",
    "&gt;",
    "citation",
    "...",
    "†",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=30), st.data())
def test_any_answer_cut_anywhere_gives_the_whole(pieces: list[str], data: st.DataObject) -> None:
    answer = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    ends = [*cuts, len(answer)]
    cut = [answer[a:b] for a, b in zip([0, *cuts], ends, strict=True)]
    assert joined(stream(cut)) == verify_citations(answer, PASSAGES)


@given(st.integers(0, 60), st.sampled_from(["", ">", '">', "\n\n", "<cite ", "</cite>", "x"]))
@example(40, "")
@example(34, "")
def test_tags_about_as_long_as_the_limit_are_read_alike(n: int, end: str) -> None:
    limit, markers.MAX_TAG = markers.MAX_TAG, 40
    try:
        text = f"a <cite {'x' * n}{end} rest [1]"
        for step in (1, 3, 7):
            reader = MarkerReader()
            parts = [
                part
                for at in range(0, len(text), step)
                for part in reader.feed(text[at : at + step])
            ]
            assert merged(parts + reader.feed("", is_last=True)) == merged(read_markers(text))
    finally:
        markers.MAX_TAG = limit


def test_text_is_shown_at_once_and_a_citation_when_its_tag_closes() -> None:
    reader = AnswerWriter(PASSAGES)
    assert reader.feed("The answer: ") == ["The answer:"]
    assert reader.feed('<cite doc_id="doc_01" quo') == []
    assert reader.feed('te="The pump stops.">it ') == [" it"]
    assert reader.feed("stops") == [" stops"]
    number, citation = reader.feed("</cite>")
    assert number == "[1]"
    assert isinstance(citation, Citation)
    assert (citation.verdict, citation.claim) == ("verified", "it stops")
    assert reader.feed(" 1 < 2") == [" 1 < 2"]
    assert reader.finish() == []


@pytest.mark.parametrize(
    "text",
    ["a < b", "a <b c d", "<3", "[x", "[2024", "【材料", "see <cited> x", "(see doc", "A & B"],
)
def test_what_begins_no_marker_is_shown_without_delay(text: str) -> None:
    reader = AnswerWriter(PASSAGES)
    assert "".join(str(part) for character in text for part in reader.feed(character)) == text


def test_a_tag_that_never_ends_is_let_go_at_the_limit() -> None:
    reader = AnswerWriter(PASSAGES)
    parts = reader.feed("<cite " + "x" * (markers.MAX_TAG - 10))
    assert parts == []
    parts = [part for _ in range(30) for part in reader.feed("y")]
    assert "".join(map(str, parts)).startswith("<cite xxx")
    assert len(reader._reader._buffer) == 0


@pytest.mark.parametrize(
    "piece", ["<cite ", '<cite a="', "[1", "<cite>", "a=\"'>", "<", "[1]", ">"]
)
def test_hostile_answers_in_small_pieces_are_read_in_time(piece: str) -> None:
    text = "<cite " + piece * (20_000 // len(piece))
    reader = MarkerReader()
    started = time.process_time()
    for at in range(0, len(text), 5):
        reader.feed(text[at : at + 5])
    reader.feed("", is_last=True)
    assert time.process_time() - started < 3.0
