"""Ranges of bytes: which are asked for, and what is served when nothing sensible is."""

from __future__ import annotations

import pytest

from rag.api.http.ranges import read_range


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("", 0, 10),
        ("bytes=0-3", 0, 4),
        ("bytes=4-", 4, 10),
        ("bytes=-3", 7, 10),
        ("bytes=-99", 0, 10),
        ("bytes=8-99", 8, 10),
        ("bytes = 0 - 0", 0, 1),
        ("bytes=5-2", 0, 10),
        ("bytes=-", 0, 10),
        ("bytes=0-1,3-4", 0, 10),
        ("lines=0-1", 0, 10),
        ("bytes=x-1", 0, 10),
    ],
)
def test_what_is_served_of_ten_bytes(text: str, start: int, end: int) -> None:
    found = read_range(text, 10)
    assert found is not None and (found.start, found.end) == (start, end)


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_what_begins_behind_the_last_byte_cannot_be_served(text: str) -> None:
    assert read_range(text, 10) is None


def test_nothing_is_whole() -> None:
    found = read_range("", 0)
    assert found is None or found.length == 0
