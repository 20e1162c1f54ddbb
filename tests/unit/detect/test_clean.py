"""Cleaning: what is stored is what is shown, without what no reader sees."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.detect import clean
from rag.stages.detect.clean import clean_text, is_garbled


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("adip\x02iscing", "adipiscing"),
        ("adip\x02\r\niscing", "adipiscing"),
        ("adip\x02 \n iscing elit", "adipiscing elit"),
        ("HX-4471\x02\r\nB", "HX-4471-B"),
        ("COVID\x0219", "COVID-19"),
        ("a\r\nb\rc\u2028d\x85e\x0bf", "a\nb\nc\nd\ne\nf"),
        ("e\u0301te\u0301", "été"),
        ("\u2f64 \ufb01 ＡＢ ①", "\u2f64 \ufb01 ＡＢ ①"),
        ("a\0b\x1fc\x7f\x9f\ufeff\ufffed", "abcd"),
        ("Donau\xaddampf", "Donaudampf"),
        ("a\ud800b\udfff", "ab"),
        ("tab\tpage\fend", "tab\tpage\fend"),
        ("😀 𠀀", "😀 𠀀"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("", ""),
    ],
)
def test_it_drops_what_is_not_shown_and_keeps_what_is(raw: str, expected: str) -> None:
    assert clean_text(raw) == expected


@given(st.text())
def test_cleaning_twice_changes_nothing_more(raw: str) -> None:
    text = clean_text(raw)
    assert clean_text(text) == text
    assert unicodedata.is_normalized("NFC", text)
    text.encode("utf-8")
    assert not set(text) & {"\0", "\r", "\x02"}


@given(st.lists(st.sampled_from(["\r", "\n", "\x02", " ", "e", "\u0301", "水", "A", "1", "\0"])))
def test_a_long_text_is_cleaned_piece_by_piece_as_a_whole(parts: list[str]) -> None:
    raw = "".join(parts)
    pieces = list(clean._pieces(raw))
    assert "".join(pieces) == raw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean, "PIECE", 3)
        in_pieces = clean_text(raw)
    assert in_pieces == clean._clean(raw)


def test_pieces_end_before_a_letter_that_no_mark_belongs_to() -> None:
    raw = ("e\u0301" * 700_000) + "水" * 700_000
    text = clean_text(raw)
    assert text == "é" * 700_000 + "水" * 700_000


@pytest.mark.parametrize(
    "text",
    [
        "£± Ä¿Â¼ µÚÒ»ÕÂ ×ÜÔò Ôò¸Ç¹æ¶¨Á¦ Ê©ÐÐÖÐ»ªÈËÃñ",
        "\ufffd" * 30,
        "\ue012\ue034\ue056" * 20,
        "ÎÒÊÇÖÐ¹úÈË£¬ÎÒ°®ÖÐ¹ú¡£ÕâÊÇÒ»¸ö²âÊÔ",
    ],
)
def test_text_of_an_unreadable_font_is_garbled(text: str) -> None:
    assert is_garbled(text)


@pytest.mark.parametrize(
    "text",
    [
        "这是一段完全正常的中文文字，没有任何乱码，长度超过二十个字。",
        "Die größeren Räume brauchen über zwölf Höhenmeter für ältere Geräte.",
        "Élève à l'école où été déjà fêté; ça été très réussi à Orléans, évidemment.",
        "Çocukların öğretmeni güzel bir şarkı söylüyor, çünkü müzik çok önemlidir.",
        "plain words of English text that go on",
        "Temperature 20 °C ± 2 °C, 5 m² × 3 µm, § 12, £ 30, ½ cup",
        "短",
        "",
    ],
)
def test_languages_are_not_garbled(text: str) -> None:
    assert not is_garbled(text)
