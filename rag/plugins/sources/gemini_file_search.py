"""Data source ``gemini_file_search``: the chunks that a store's answer rests on are the hits.

What the answer rests on are the hits, in the order of use; there are no scores. The answer itself
is with the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_noop

from rag.core.errors import InvalidInputError
from rag.core.file_search import GroundedAnswer, Grounding
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.rag_node import FileRef, valid_files
from rag.core.sources import AnswerRequest, SourceQuery, SourceResult


@register("source")
class GeminiFileSearchSource:
    """Asks stores of file search, or files that an earlier step gave."""

    name = "gemini_file_search"
    label = gettext_noop("Gemini File Search")

    @staticmethod
    def hosts(options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return that files are fetched from wherever a value says; stores are ours."""
        return ("*",) if options.get("files_from") else ()

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What a data source of this type is told."""

        store: str = option("", help="A store: its name, slug or resource name.")
        stores: list[str] = option([], help="Several stores of one backend, asked together.")
        files_from: str = option(
            "", help="The value that holds files with an url, asked instead of stores."
        )
        top_k: int | None = option(
            None, help="Maximum chunks that the answer may use.", minimum=1, maximum=100
        )
        metadata_filter: str = option("", help='Such as lang = "zh" AND year > 2020.')

    def __init__(self, options: Options) -> None:
        named = [options.store, *options.stores]
        self._stores = list(dict.fromkeys(name for name in named if name.strip()))
        self._options = options
        if bool(self._stores) == bool(options.files_from):
            raise InvalidInputError(
                "The source “{name}” must have either stores or files.",
                hint="Set {option}.",
                name=self.name,
                option="store",
            )

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the chunks of the answer; raise NotFoundError for a store that may not be read."""
        query.deadline.check()
        options, files = self._options, self._files(query)
        request = AnswerRequest(
            query.text, self._stores, files, options.top_k, options.metadata_filter
        )
        answer = query.ports.answer(request, scope=query.scope, deadline=query.deadline)
        query.deadline.check()
        hits = [self._whole(answer)] if files else self._chunks(answer)
        return SourceResult(tuple(hits), (answer.notice,) if answer.notice else ())

    def _files(self, query: SourceQuery) -> tuple[FileRef, ...]:
        name = self._options.files_from
        if not name:
            return ()
        files = valid_files(query.values.get(name))
        if not files:
            raise InvalidInputError(
                "The value “{name}” holds no file with an url.",
                hint="Check what gives it.",
                name=name,
            )
        return files

    def _whole(self, answer: GroundedAnswer) -> Hit:
        names = dict.fromkeys(one.source for one in answer.groundings)
        return Hit(
            text=answer.text,
            rank=1,
            source=self.name,
            file_name=", ".join(names),
            data=_told(answer),
        )

    def _chunks(self, answer: GroundedAnswer) -> list[Hit]:
        used: dict[tuple[str, str], Grounding] = {}
        for one in answer.groundings:
            if one.chunk.strip():
                used.setdefault((one.source, one.chunk), one)
        return [
            Hit(
                text=one.chunk,
                rank=rank,
                source=self.name,
                file_name=one.source,
                external_id=one.document or one.source,
                page_first=one.page,
                page_last=one.page,
                metadata=dict(one.metadata),
                data=_told(answer) if rank == 1 else None,
            )
            for rank, one in enumerate(used.values(), 1)
        ]


def _told(answer: GroundedAnswer) -> dict[str, Any]:
    return {"answer": answer.text, "model": answer.model}
