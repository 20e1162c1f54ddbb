"""Splitters of our own: a module each, called as the chunking template that it is."""

from __future__ import annotations

from rag.stages.chunking.pack import SentenceSplitter
from rag.stages.chunking.splitters import (
    book,
    code,
    laws,
    paper,
    parent_child,
    qa,
    rows,
    slides,
)
