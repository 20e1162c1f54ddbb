"""A long download is sent as it is made."""

from __future__ import annotations

from collections.abc import Iterator

from asgiref.sync import async_to_sync

from rag.services.files.content import LINES_PIECE as PIECE
from rag.services.files.content import stream_lines


def pieces_of(lines: Iterator[str]) -> list[bytes]:
    async def read() -> list[bytes]:
        return [piece async for piece in stream_lines(lines=lines)]

    return async_to_sync(read)()


def test_a_piece_is_sent_before_the_next_line_is_made() -> None:
    made: list[int] = []

    def lines() -> Iterator[str]:
        for n in range(10):
            made.append(n)
            yield "x" * (PIECE // 2)

    async def first() -> int:
        stream = stream_lines(lines=lines())
        return len(await anext(stream))

    assert async_to_sync(first)() == PIECE
    assert made == [0, 1]


def test_all_lines_come_in_order_and_in_utf_8() -> None:
    lines = [f"{n} 年假\n" for n in range(20_000)]
    pieces = pieces_of(iter(lines))
    assert b"".join(pieces).decode() == "".join(lines)
    assert len(pieces) > 1 and max(map(len, pieces)) < 3 * PIECE
    assert pieces_of(iter(())) == []
