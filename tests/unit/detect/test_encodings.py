"""Encodings by the names that people use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError
from rag.stages.detect.decode import SUPERSETS, USUAL, declared_codec, encoding_name, keeps_ascii


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("", ""),
        ("  ", ""),
        ("UTF8", "utf-8"),
        ("utf-8", "utf-8"),
        ("GBK", "gb18030"),
        ("gb2312", "gb18030"),
        (" GB18030 ", "gb18030"),
        ("Big5", "big5hkscs"),
        ("SJIS", "shift_jis"),
        ("windows-1252", "cp1252"),
        ("UTF-16", "utf-16"),
        ("KOI8-R", "koi8-r"),
    ],
)
def test_a_name_is_the_codec_that_reads_most_of_such_files(name: str, codec: str) -> None:
    assert encoding_name(name) == codec
    assert encoding_name(codec) == codec


@pytest.mark.parametrize(
    "name",
    [
        "klingon",
        "hex",
        "base64",
        "rot13",
        "zip",
        "undefined",
        "utf\0",
        "../x",
        "a" * 200,
        "水",
        "a b",
    ],
)
def test_what_is_no_encoding_of_texts_is_refused_with_some_that_are(name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        encoding_name(name)
    assert name.strip() in str(caught.value)
    assert "gb18030" in str(caught.value)


@given(st.text(max_size=50))
def test_any_name_gives_a_codec_or_a_refusal(name: str) -> None:
    try:
        codec = encoding_name(name)
    except InvalidInputError:
        return
    assert codec == "" or "a".encode(codec)
    assert len(codec) <= 40


@pytest.mark.parametrize("codec", USUAL)
def test_what_is_offered_is_known_by_its_own_name(codec: str) -> None:
    assert encoding_name(codec) == codec
    assert USUAL[codec]


@pytest.mark.parametrize(("narrow", "wide"), SUPERSETS.items())
def test_a_superset_reads_what_its_subset_wrote(narrow: str, wide: str) -> None:
    text = "水中" if narrow != "big5" else "水中華"
    codec = {"hz-gb-2312": "hz"}.get(narrow, narrow)
    assert text.encode(codec).decode(wide) == text


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("GB2312", "gb18030"),
        ("x-gbk", ""),
        ("gbk", "gb18030"),
        ("big5", "big5hkscs"),
        ("ISO-8859-1", "cp1252"),
        ("latin1", "cp1252"),
        ("us-ascii", ""),
        ("utf8", "utf-8"),
        ("base64", ""),
        ("idna", ""),
        ("", ""),
        ("a\0b", ""),
        ("\ud800", ""),
        ("水", ""),
    ],
)
def test_what_is_declared_is_a_codec_or_tells_nothing(label: str, codec: str) -> None:
    assert declared_codec(label) == codec


@pytest.mark.parametrize(
    ("codec", "does"),
    [
        ("utf-8", True),
        ("gb18030", True),
        ("cp1252", True),
        ("utf-16", False),
        ("cp037", False),
        ("", False),
        ("no-such", False),
        ("base64", False),
    ],
)
def test_ascii_is_the_same_in_most_encodings(codec: str, does: bool) -> None:
    assert keeps_ascii(codec) is does
