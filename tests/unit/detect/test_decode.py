"""Decoding: any encoding of the two languages is told; damage is small or refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import DocumentError
from rag.stages.detect.decode import decode_declared, decode_text

SIMPLIFIED = (
    "北桥公共温室每周二至周日开放，时间为上午九点半至下午五点半。营养液由底部水箱泵送到顶层，再逐层流回水箱，"
    "一小时循环十二次。发现蚜虫时，先摘除受害叶片，再释放瓢虫，每平方米二十只；展区内任何时候都不得使用化学农药。"
)
TRADITIONAL = (
    "在歐洲，梵語的學術研究由德國學者開創。後來發現印歐語系，也要歸功於對梵語的研究。此外，梵語研究也對西方文字學及"
    "歷史語言學的發展貢獻不少。這三種語言太相似了，使任何學者都不得不相信三者同出一源。"
)
ENGLISH = "The pump moves water from a low place to a high place, twelve times in an hour. "
GERMAN = "Die Pumpe fördert Wasser über die Höhe von zwölf Metern; größere Räume sind älter. "
RUSSIAN = (
    "Насос поднимает воду на высоту двенадцати метров. Большие залы требуют других устройств. "
)
JAPANESE = "ポンプは低い場所から高い場所へ水を運びます。温室は火曜日から日曜日まで開いています。"
KOREAN = "펌프는 낮은 곳에서 높은 곳으로 물을 옮깁니다. 온실은 화요일부터 일요일까지 엽니다."


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (SIMPLIFIED, "utf-8"),
        (SIMPLIFIED, "utf-8-sig"),
        (SIMPLIFIED, "utf-16"),
        (SIMPLIFIED, "utf-16-le"),
        (SIMPLIFIED, "utf-16-be"),
        (SIMPLIFIED, "utf-32"),
        (SIMPLIFIED, "gb18030"),
        (SIMPLIFIED + "㐀𠀀", "gb18030"),
        (SIMPLIFIED, "hz"),
        (TRADITIONAL, "big5"),
        (TRADITIONAL, "utf-16-le"),
        (ENGLISH, "ascii"),
        (ENGLISH, "utf-16-le"),
        (ENGLISH, "utf-16-be"),
        (GERMAN * 3, "cp1252"),
        (RUSSIAN * 3, "koi8-r"),
        (RUSSIAN * 3, "cp1251"),
        (JAPANESE * 3, "shift_jis"),
        (JAPANESE * 3, "euc-jp"),
        (JAPANESE * 3, "iso-2022-jp"),
        (KOREAN * 3, "euc-kr"),
    ],
)
def test_every_usual_encoding_is_told(text: str, codec: str) -> None:
    decoded, encoding = decode_text(text.encode(codec), "a.txt")
    assert decoded == text
    assert text.encode(encoding).decode(encoding) == text


@pytest.mark.parametrize("length", [12, 20, 40, 80])
@pytest.mark.parametrize(
    ("text", "codec"),
    [(SIMPLIFIED, "gb18030"), (TRADITIONAL, "big5"), (SIMPLIFIED, "utf-16-le")],
)
def test_short_chinese_is_told_nearly_always(text: str, codec: str, length: int) -> None:
    starts = range(0, len(text) - length, 3)
    right = sum(
        decode_text(text[at : at + length].encode(codec))[0] == text[at : at + length]
        for at in starts
    )
    assert right >= 0.9 * len(starts)


@pytest.mark.parametrize("codec", ["gb18030", "utf-8", "big5"])
def test_chinese_that_comes_late_is_seen(codec: str) -> None:
    text = ENGLISH * 20_000 + TRADITIONAL
    assert decode_text(text.encode(codec)) == (text, "big5hkscs" if codec == "big5" else codec)


def test_long_lines_and_scattered_chinese_are_sampled_at_sound_places() -> None:
    text = "".join(f"{ENGLISH * 30}{SIMPLIFIED[at]}{ENGLISH}\n" for at in range(len(SIMPLIFIED)))
    assert decode_text(text.encode("gb18030")) == (text, "gb18030")


@pytest.mark.parametrize("codec", ["gb18030", "utf-8", "big5"])
def test_a_bad_byte_costs_a_character_not_the_text(codec: str) -> None:
    # In Chinese encodings the characters after it are lost up to the end of the line.
    source = ((TRADITIONAL if codec == "big5" else SIMPLIFIED)[:30] + "\n") * 30
    data = bytearray(source.encode(codec))
    data[300] = 0xFF
    text, encoding = decode_text(bytes(data))
    assert encoding == {"big5": "big5hkscs"}.get(codec, codec)
    assert 1 <= text.count("\ufffd") <= 3
    assert text[-80:] == source[-80:]


def test_a_cut_last_character_is_no_reason_to_doubt_utf8() -> None:
    assert decode_text("水箱".encode()[:-1]) == ("水\ufffd", "utf-8")
    text, encoding = decode_text((SIMPLIFIED.encode() * 3)[:-2])
    assert (encoding, text.count("\ufffd")) == ("utf-8", 1)


def test_latin_letters_are_not_taken_for_utf16() -> None:
    words = "kettle" * 200  # Pairs of its letters are Chinese characters in UTF-16.
    assert decode_text(words.encode()) == (words, "utf-8")
    text = GERMAN.replace(" ", "") * 20
    assert decode_text(text.encode("cp1252"))[0] == text


@pytest.mark.parametrize(
    "data",
    [
        bytes(1000),
        bytes(10 * 1024**2),
        random.Random(1).randbytes(100_000),
        random.Random(2).randbytes(100_001),
        b"text" * 2_000_000 + bytes(200_000) + b"text" * 2_000_000,
        b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 40,
    ],
    ids=["nul", "many-nuls", "random", "odd", "middle", "elf"],
)
def test_binary_is_refused_wherever_it_lies(data: bytes) -> None:
    with pytest.raises(DocumentError, match=r"“a\.txt” is binary, not text\."):
        decode_text(data, "a.txt")


def test_a_few_control_characters_are_no_binary() -> None:
    data = b"page one\x0cpage two\x1b[1mbold\x00" + ENGLISH.encode() * 20
    assert decode_text(data)[1] == "utf-8"


def test_bytes_in_no_encoding_are_refused_with_advice() -> None:
    advice = "The encoding of “a.txt” cannot be told. Save it as UTF-8 and upload that."
    refused = 0
    for seed in range(30):
        choose = random.Random(seed).choice
        try:
            decode_text(bytes(choose(range(0x80, 0x100)) for _ in range(2000)), "a.txt")
        except DocumentError as error:
            refused += str(error) == advice
    assert refused >= 25


@pytest.mark.parametrize("codec", ["gb18030", "big5hkscs"])
def test_a_mark_that_lies_is_passed_over(codec: str) -> None:
    text = f"{TRADITIONAL if codec == 'big5hkscs' else SIMPLIFIED}{ENGLISH}\n" * 3
    assert decode_text(b"\xef\xbb\xbf" + text.encode(codec), "a.txt") == (text, codec)


def test_noise_behind_a_mark_is_binary() -> None:
    for bom in (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"):
        with pytest.raises(DocumentError, match="is binary"):
            decode_text(bom + random.Random(3).randbytes(3000), "a.txt")


@pytest.mark.parametrize(
    ("text", "codec", "label", "found"),
    [
        (GERMAN, "utf-8", "iso-8859-1", "utf-8"),
        (GERMAN, "cp1252", "iso-8859-1", "cp1252"),
        (SIMPLIFIED, "utf-8", "gbk", "utf-8"),
        (SIMPLIFIED, "utf-8-sig", "gbk", "utf-8-sig"),
        ("隆隆", "gbk", "gb2312", "gb18030"),  # These bytes would be two letters in UTF-8.
        ("水", "gbk", "GB2312", "gb18030"),
        (TRADITIONAL, "big5", "gb2312", "gb18030"),
        (ENGLISH, "ascii", "shift_jis", "shift_jis"),
        (RUSSIAN, "koi8-r", "KOI8-R", "koi8-r"),
        (SIMPLIFIED, "gb18030", "us-ascii", "gb18030"),
        (SIMPLIFIED, "gb18030", "no-such", "gb18030"),
        (SIMPLIFIED, "gb18030", "", "gb18030"),
    ],
)
def test_a_label_is_believed_where_the_bytes_agree(
    text: str, codec: str, label: str, found: str
) -> None:
    decoded, encoding = decode_declared(text.encode(codec), "a", label)
    assert encoding == found
    assert decoded == text or codec == "big5"


@given(st.binary(max_size=200), st.text(max_size=20))
def test_any_label_gives_text_or_a_refusal(data: bytes, label: str) -> None:
    try:
        assert isinstance(decode_declared(data, "a", label)[0], str)
    except DocumentError as error:
        assert "“a”" in str(error)


def test_an_asked_encoding_overrules_and_must_fit() -> None:
    assert decode_text("Höhe".encode("cp1252"), "a", "cp1252") == ("Höhe", "cp1252")
    assert decode_text("水".encode("gb18030"), "a", "latin-1")[0] == "Ë®"
    for encoding in ("utf-8", "no-such", "hex", "utf\0"):
        with pytest.raises(DocumentError, match="Choose another encoding"):
            decode_text("Höhe".encode("cp1252"), "a", encoding)


@pytest.mark.parametrize("encoding", ["idna", "punycode"])
def test_an_encoding_that_passes_over_no_bad_byte_is_refused(encoding: str) -> None:
    with pytest.raises(DocumentError, match=f"cannot be read as {encoding}"):
        decode_text("水泵".encode() * 100, "a", encoding)


@given(st.text(max_size=200))
def test_utf8_is_always_read_back(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    try:
        decoded, _ = decode_text(data)
    except DocumentError:
        return
    if text.isprintable() and not text.startswith("\ufeff"):
        assert decoded == text


@given(st.binary(max_size=400))
def test_any_bytes_give_text_or_a_refusal(data: bytes) -> None:
    try:
        text, encoding = decode_text(data, "a")
    except DocumentError:
        return
    assert isinstance(text, str)
    assert encoding
