"""Tags that a model wraps around its answer: read away; code, quotes and placeholders stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.citing.citation_markers import Marker, MarkerReader, read_markers

CITE = '<cite doc_id="doc_01" quote="It is <b>hot</b>.">It is <b>hot</b>.</cite>'


def shown(text: str) -> str:
    return "".join(part for part in read_markers(text) if isinstance(part, str))


READ_AWAY = {
    "around all": ("<answer>Every 30 days.</answer>", "Every 30 days."),
    "on lines of its own": ("<answer>\nEvery 30 days.\n</answer>\n", "Every 30 days.\n"),
    "a blank behind": ("<answer> Every 30 days. </answer>", "Every 30 days. "),
    "another name": ("<final_response>每 30 天。</final_response>", "每 30 天。"),
    "left open": ("<response>\nEvery 30 days.", "Every 30 days."),
    "only closed": ("Every 30 days.</answer>", "Every 30 days."),
    "closed after thinking": (
        "Let me see.\n</think>\n\nEvery 30 days.",
        "Let me see.\n\nEvery 30 days.",
    ),
    "nested": ("<result><answer>Every 30 days.</answer></result>", "Every 30 days."),
    "behind words": ("Answer: <answer>Every 30 days.</answer>", "Answer: Every 30 days."),
    "amid words": ("It is every <b>30 days</b>.", "It is every 30 days."),
    "behind a bullet": ("- <item>Every 30 days.</item>", "- Every 30 days."),
    "copied from the prompt": (
        '<document id="doc_01" source="a.txt">\nEvery 30 days.\n</document>',
        "Every 30 days.\n",
    ),
    "tokens of a template": ("Every 30 days.<|im_end|>\n<|endoftext|>", "Every 30 days.\n"),
    "an end of sequence": ("Every 30 days.</s>", "Every 30 days."),
    "lower case": ("<answer>every 30 days</answer>", "every 30 days"),
    "beside markup": ("<answer>**30 days**</answer>", "**30 days**"),
}
KEPT = (
    "Write `<div>` around it, and `</div>` behind.",
    "```html\n<div>\n  <p>Hello</p>\n</div>\n```\nThat is all.",
    "~~~\n<answer>\n~~~\n",
    "It holds for a<b and b>c, or a < b > c.",
    "List<String> is no tag, Map<K, V> neither.",
    "<name> is the name of your store.",
    "Replace <name> by the name, then press <Enter>.",
    "Usage: rag_ask <question> --store <store>",
    'The tag "<b>" makes words bold, “</b>” ends it.',
    "Text between <b> and </b> is bold.",
    '<a href="https://example.org/">a link</a>',
    "Mail <desk@example.org> or see <https://example.org/>.",
    "<3 and <- and <= are signs.",
    "《<甲>》",
)


@pytest.mark.parametrize("name", READ_AWAY)
def test_a_tag_around_the_answer_is_read_away(name: str) -> None:
    text, left = READ_AWAY[name]
    assert shown(text) == left


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_wrapper_stays(text: str) -> None:
    assert shown(text) == text


def test_a_quoted_source_keeps_its_tags() -> None:
    assert read_markers(f"<answer>{CITE}</answer>") == [
        "It is <b>hot</b>.",
        Marker("doc_01", "It is <b>hot</b>.", "It is <b>hot</b>."),
    ]


@given(
    st.sampled_from([*(text for text, _ in READ_AWAY.values()), *KEPT, CITE]),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_the_pieces_do_not_matter(text: str, cuts: list[int]) -> None:
    reader, parts, last = MarkerReader(), list[object](), 0
    for cut in sorted(cuts):
        parts += reader.feed(text[last:cut])
        last = max(last, cut)
    parts += reader.feed(text[last:], is_last=True)
    assert "".join(part for part in parts if isinstance(part, str)) == shown(text)


def test_many_open_tags_cost_little() -> None:
    text = "word <b>x " * 10_000 + "<a" * 20_000
    assert len(shown(text)) > 50_000
