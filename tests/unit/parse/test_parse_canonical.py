"""Canonical text: whatever is added, spans are exact, ordered and within the text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag.core.documents import Notice
from rag.stages.detect.clean import clean_text
from rag.stages.parse.canonical import CanonicalText

PIECES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["heading", "paragraph", "table"]), st.text(max_size=20)),
        st.tuples(st.just("page"), st.text(max_size=5)),
    ),
    max_size=20,
)


@given(PIECES)
def test_spans_of_anything_are_exact_and_ordered(pieces: list[tuple[str, str]]) -> None:
    canonical = CanonicalText()
    expected = []
    n_pages = 0
    for kind, text in pieces:
        if kind == "page":
            canonical.start_page(text)
            n_pages += 1
            continue
        canonical.add(kind, text, level=9)
        cleaned = clean_text(text).replace("\f", "\n").strip("\n")
        if cleaned.strip():
            expected.append((kind, cleaned))
    document = canonical.finish("docx", "test")
    found = [(b.kind, document.text[b.start : b.end]) for b in document.blocks]
    assert found == expected
    edges = [edge for block in document.blocks for edge in (block.start, block.end)]
    assert edges == sorted(edges)
    assert len(document.pages) == n_pages
    assert document.text.count("\f") == max(0, n_pages - 1)
    if n_pages > 1:
        pages = document.text.split("\f")
        spans = [document.text[page.start : page.end] for page in document.pages]
        assert spans[1:] == pages[1:]
    assert [page.number for page in document.pages] == list(range(1, n_pages + 1))
    assert all(page.label for page in document.pages)
    assert max((block.level for block in document.blocks), default=0) <= 6


def test_blocks_are_a_blank_line_apart_and_pages_a_form_feed() -> None:
    canonical = CanonicalText()
    canonical.start_page("一")
    canonical.add("heading", "a", 1)
    canonical.add("paragraph", "\r\nb\f\r\n")
    canonical.start_page("")
    canonical.start_page("x" * 200)
    canonical.add("paragraph", " c ")
    document = canonical.finish("pptx", "test", title=" t \n u ")
    assert document.text == "a\n\nb\f\f c "
    assert [(page.label, page.start, page.end) for page in document.pages] == [
        ("一", 0, 4),
        ("2", 5, 5),
        ("x" * 80, 6, 9),
    ]
    assert document.title == "t u"


def test_the_limit_is_kept_and_told_once() -> None:
    canonical = CanonicalText(max_chars=5)
    for text in ("abc", "defg", "hij"):
        canonical.add("paragraph", text)
    document = canonical.finish("docx", "test")
    assert document.text == "abc\n\nde"
    assert document.warnings == (Notice("Only the first {n} characters are kept.", n=5),)
