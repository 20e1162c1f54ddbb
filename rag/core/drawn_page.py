"""A page as a picture, with the places of a quote on it."""

from __future__ import annotations

from dataclasses import dataclass

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """``png`` with its size in pixels; ``boxes`` are left, top, width, height in shares of it."""

    png: bytes
    width: int
    height: int
    boxes: tuple[Box, ...] = ()
