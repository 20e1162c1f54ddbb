"""The knowledge manager's guide names what is on the pages, and its pictures are there."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from tests.edges.catalogue import messages_of_ours

DOCS = Path(__file__).resolve().parents[3] / "docs"
GUIDE = (DOCS / "guides" / "knowledge-manager.md").read_text(encoding="utf-8")
ENGLISH = GUIDE.partition("## 中文摘要")[0]
GUIDES = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "guides").glob("*.md"))
PICTURES = sorted(set(re.findall(r"\]\(\.\./screenshots/([\w-]+\.png)\)", GUIDES)))


def test_every_picture_is_there_and_small_and_every_one_is_shown() -> None:
    kept = {path.name: path.read_bytes() for path in (DOCS / "screenshots").glob("*.png")}
    assert sorted(kept) == PICTURES and len(PICTURES) > 10
    for name, data in kept.items():
        width, height = struct.unpack(">II", data[16:24])
        assert data.startswith(b"\x89PNG") and len(data) < 400_000, name
        assert width <= 1280 and height <= 1000, name


def test_what_is_bold_is_written_on_a_page() -> None:
    known = {message.casefold() for message in messages_of_ours()}
    bold = set(re.findall(r"\*\*([^*]+)\*\*", ENGLISH)) - {"bold"}
    assert {text for text in bold if text.casefold() not in known} == set()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([\w./-]+\.md)\)", GUIDE):
        assert (DOCS / "guides" / target).exists(), target
