"""Stop sequences: what is shown never depends on how the text came in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.chat.openai.answer import StopSequences

LETTERS = st.text(alphabet="ab\n停", max_size=30)


def cut(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    cutter = StopSequences(stops)
    shown = "".join(cutter.feed(piece) for piece in pieces)
    return shown + cutter.finish(), cutter.is_cut


@given(LETTERS, st.lists(st.text(alphabet="ab\n停", min_size=1, max_size=4), max_size=4), st.data())
def test_the_text_ends_before_the_stop_that_is_complete_first(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    begin = min(
        (text.find(s) for s in stops if s in text and text.find(s) + len(s) == min(ends)),
        default=len(text),
    )
    assert cut(pieces, stops) == (text[:begin], bool(ends))


def test_the_beginning_of_a_stop_is_held_back_until_it_is_none() -> None:
    cutter = StopSequences(["</end>"])
    assert cutter.feed("yes</en") == "yes"
    assert cutter.feed("joy") == "</enjoy"
    assert (cutter.feed("</end>more"), cutter.is_cut, cutter.feed("x"), cutter.finish()) == (
        "",
        True,
        "",
        "",
    )


def test_without_stops_all_is_shown_at_once() -> None:
    assert cut(["a", "", "b"], []) == ("ab", False)
    assert cut(["ab"], [""]) == ("ab", False)
