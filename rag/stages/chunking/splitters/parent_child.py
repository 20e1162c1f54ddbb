"""Splitter ``parent_child``: small chunks that are found, in larger ones that are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rag.core.options import option
from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.pack import Packer


@register("splitter")
class ParentChildSplitter:
    """Splitter for small chunks within larger passages."""

    name, label = "parent_child", "Parent and child"
    description = (
        "Small chunks are found, and the passage around them is shown and given to the "
        "model: several chunks of the chunk size together."
    )

    @dataclass(frozen=True)
    class Options:
        times: int = option(4, help="Chunk sizes that a passage has.", minimum=2, maximum=10)

    def __init__(self, options: Options) -> None:
        self._times = options.times

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield the spans of each passage, which they name; none reaches into another."""
        rule = request.rule
        for parent in Packer(request, self._times * rule.max_tokens, 0).spans():
            inside = replace(request, start=parent.own, end=parent.end)
            for span in Packer(inside, rule.max_tokens, rule.effective_overlap).spans():
                yield replace(span, parent_start=parent.own)
