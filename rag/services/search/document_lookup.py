"""Document lookup: the files, pages and sections that a question names, and their passages.

Only files that the caller may read are looked through, by name, then by the beginning of their
text; whoever may not read one is told nothing of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast, Left

from rag import models
from rag.core.access import Scope
from rag.core.hits import Hit
from rag.core.ports import FileFilter
from rag.core.types import RetrievalSettings
from rag.stages.query.file_question import (
    LINE_START,
    DocumentQuestion,
    section_pattern,
)
from rag.stages.query.subject import content_phrases, tokens_of
from rag.stages.text.normalize import to_simplified
from rag.stages.text.simplified import written_forms
from rag.stages.text.terms import is_han

# So many files may bear one name; of a page or section of no named file, so many may have it.
MAX_FILES, MAX_PLACES = 10, 5
# A store of more files is not looked through for a place alone, nor for texts that begin so.
MAX_SCANNED = 2000
MAX_HITS, MAX_CHUNKS = 60, 5000
_BEGINNING = 160
# Beside its text a passage takes so many tokens of a prompt.
_FRAME_TOKENS = 30


@dataclass(frozen=True, slots=True)
class NamedDocuments:
    """What a question names, as far as it was found: ``files`` (id, name, chunks), ``hits``.

    ``missing`` are names that no file bears. Without hits the files are where to search.
    """

    asked: DocumentQuestion
    files: tuple[tuple[int, str, int], ...] = ()
    missing: tuple[str, ...] = ()
    hits: tuple[Hit, ...] = ()
    content_types: tuple[str, ...] = ()

    @property
    def file_filter(self) -> FileFilter | None:
        """Return the files as the search takes them, None where all are searched."""
        if not self.files:
            return None
        return FileFilter([pk for pk, *_ in self.files], sum(n for *_, n in self.files))

    def as_dict(self) -> dict[str, Any]:
        """Return what the metadata of a search tell of it."""
        return {
            "kind": self.asked.kind,
            "names": list(self.asked.names),
            "files": [{"id": pk, "name": name} for pk, name, _ in self.files],
            "missing": list(self.missing),
            "page": self.asked.page,
            "section": self.asked.section or None,
            "is_found": bool(self.hits),
        }


def lookup_documents(
    *,
    asked: DocumentQuestion,
    scope: Scope,
    stores: Sequence[models.Store],
    settings: RetrievalSettings,
) -> NamedDocuments | None:
    """Return what a question names of the stores' documents, None where that is no document.

    Of a summary and a comparison the hits are the first passages of the sections, of a page or
    section its passages in order; within the settings' ``context_tokens``.
    """
    files = _readable(scope, stores, settings)
    found, missing = _find(asked, files)
    if missing and not asked.is_sure and asked.kind != "place":
        return None  # A name that is no file's is a subject like any other.
    if asked.kind == "place" and not asked.names:
        found = _with_place(asked, files, scope)
    if not found:
        told = asked.names if asked.is_sure else ()
        return NamedDocuments(asked, missing=tuple(told)) if told else None
    types = tuple(settings.content_types)
    named = NamedDocuments(asked, tuple(found), tuple(missing), content_types=types)
    if missing and asked.kind == "compare":
        return named
    return replace(named, hits=_hits(named, scope, settings.context_tokens))


def document_notice(*, documents: Mapping[str, Any], query: str) -> str:
    """Return what is told about the documents that a search was led by, often nothing.

    ``documents`` are those of the metadata of a search.
    """
    language = 0 if is_han(query) else 1
    names = [one["name"] for one in documents.get("files") or ()]
    asked = documents.get("names") or ()
    told = []
    if missing := documents.get("missing"):
        told.append(_TEXTS["missing"][language].format(names=_joined(missing, language)))
    if len(names) > max(1, len(asked) - len(documents.get("missing") or ())):
        told.append(_TEXTS["several"][language].format(names=_joined(names, language)))
    place = documents.get("section") or documents.get("page")
    if place and names and not documents.get("is_found"):
        told.append(_TEXTS["no place"][language].format(names=_joined(names, language)))
    return ("" if language == 0 else " ").join(told)


_TEXTS = {
    "missing": ("没有找到名为{names}的文件。", "There is no file called {names}."),
    "several": ("有几个文件符合：{names}。", "Several files match: {names}."),
    "no place": ("{names}中没有这一页或这一节。", "{names} has no such page or section."),
}


def _joined(names: Iterable[str], language: int) -> str:
    return ("、", ", ")[language].join(f"“{name}”" for name in names)


def _readable(
    scope: Scope, stores: Sequence[models.Store], settings: RetrievalSettings
) -> QuerySet[models.File]:
    files = models.File.objects.readable(scope).filter(
        store__in=[store.pk for store in stores], n_chunks__gt=0
    )
    if settings.metadata:
        files = files.filter(metadata__contains=dict(settings.metadata))
    if settings.content_types:
        files = files.filter(content_type__in=settings.content_types)
    return files.order_by("pk")


Row = tuple[int, str, int]


def _find(asked: DocumentQuestion, files: QuerySet[models.File]) -> tuple[list[Row], list[str]]:
    """Return the files that bear the names, and the names that none bears."""
    found: dict[int, Row] = {}
    missing = []
    for name in asked.names:
        rows = _named(name, files, is_sure=asked.is_sure or asked.kind in ("place", "named"))
        if not rows and asked.is_sure:
            rows = _titled(_words(name), files)
        found |= {row[0]: row for row in rows}
        missing += [] if rows else [name]
    return list(found.values()), missing


def _named(name: str, files: QuerySet[models.File], *, is_sure: bool) -> list[Row]:
    """Return the files of exactly this name; where the name is surely one, of all its words."""
    words = _words(name)
    if not words:
        return []
    holds = Q()
    for word in words:
        holds &= _in_any_form("name", word)
    rows = list(files.filter(holds).values_list("pk", "name", "n_chunks")[:200])
    exact = [row for row in rows if _plain(row[1]) == _plain(name)]
    return (exact or (rows if is_sure else []))[:MAX_FILES]


def _titled(words: Sequence[str], files: QuerySet[models.File]) -> list[Row]:
    """Return the files whose text begins with all the words: that is their title."""
    if not words or files.count() > MAX_SCANNED:
        return []
    first = models.Chunk.objects.live().filter(file__in=files, enabled=True, ordinal=0)
    titled = first.annotate(beginning=Left("text", _BEGINNING)).filter(
        *(_in_any_form("beginning", word) for word in words)
    )
    ids = titled.values_list("file_id", flat=True)[:MAX_FILES]
    return list(files.filter(pk__in=list(ids)).values_list("pk", "name", "n_chunks"))


def _in_any_form(field: str, word: str) -> Q:
    """Return whether a field holds a word, in traditional characters or in simplified ones."""
    held = Q()
    for form in written_forms(word):
        held |= Q(**{f"{field}__icontains": form})
    return held


def _words(name: str) -> list[str]:
    """Return what of a name is looked for: its words, without the ending of a file."""
    stem = name.replace("\0", " ").strip()
    tokens = [token.word for token in tokens_of(stem) if token.has_content]
    if is_han(stem):
        phrases = [phrase.text for phrase in content_phrases(stem, has_relations=True)]
        tokens = [part for phrase in phrases for part in phrase.split()]
    return tokens or ([stem] if len(stem) > 1 else [])


def _plain(name: str) -> str:
    """Return a name as names are compared: simplified, without ending, marks and case."""
    folded = to_simplified(unicodedata.normalize("NFKC", name).casefold())
    stem, dot, ending = folded.rpartition(".")
    folded = stem if dot and len(ending) <= 5 and ending.isalnum() else folded
    return "".join(filter(str.isalnum, folded))


def _with_place(asked: DocumentQuestion, files: QuerySet[models.File], scope: Scope) -> list[Row]:
    """Return the few files that have the page or section, none where all are too many."""
    if files.count() > MAX_SCANNED:
        return []
    chunks = _at_place(asked, models.Chunk.objects.readable(scope).filter(file__in=files))
    ids = list(chunks.order_by("file_id").values_list("file_id", flat=True).distinct())
    if not 0 < len(ids) <= MAX_PLACES:
        return []
    return list(files.filter(pk__in=ids).values_list("pk", "name", "n_chunks"))


def _at_place(
    asked: DocumentQuestion, chunks: models.chunk.ChunkQuerySet
) -> models.chunk.ChunkQuerySet:
    live = chunks.live().filter(enabled=True)
    if asked.page is not None:
        return live.filter(page_first__lte=asked.page, page_last__gte=asked.page)
    # The headings above a passage as text: ["Scope", "3.2 Fees"].
    if asked.heading:
        return live.annotate(above=Cast("heading_path", TextField())).filter(_headed(asked.heading))
    pattern = section_pattern(asked.section)
    above = '"' + pattern.removeprefix(LINE_START)
    live = live.annotate(above=Cast("heading_path", TextField()))
    return live.filter(Q(above__regex=above) | Q(text__regex=f"(?n){pattern}"))


def _headed(heading: str) -> Q:
    held = Q()
    for form in written_forms(heading):
        held |= Q(above__iregex=rf'"[^"]{{0,12}}{re.escape(form)}[^"]{{0,4}}"')
    return held


def _hits(named: NamedDocuments, scope: Scope, tokens: int) -> tuple[Hit, ...]:
    asked = named.asked
    if asked.kind == "named":
        return ()
    ids = [pk for pk, *_ in named.files]
    chunks = models.Chunk.objects.readable(scope).live().filter(file_id__in=ids, enabled=True)
    if asked.kind == "place":
        rows = list(_at_place(asked, chunks).order_by("file_id", "char_end")[:MAX_HITS])
    else:
        facts = list(
            chunks.order_by("file_id", "char_end").values_list(
                "pk", "file_id", "heading_path", "page_first", "token_count"
            )[:MAX_CHUNKS]
        )
        kept = _leads(facts, ids, tokens)
        rows = sorted(chunks.filter(pk__in=kept), key=lambda row: kept.index(row.pk))
    names = {pk: name for pk, name, _ in named.files}
    return tuple(_hit(row, rank, names) for rank, row in enumerate(rows, start=1))


Fact = tuple[int, int, list[str], int | None, int]


def _leads(facts: Sequence[Fact], file_ids: Sequence[int], tokens: int) -> list[int]:
    """Return the first chunk of each section, of as many levels as the tokens let in.

    Each file has its share. One without headings is read by its pages, or from its beginning.
    """
    by_file: dict[int, list[Fact]] = {pk: [] for pk in file_ids}
    for fact in facts:
        by_file[fact[1]].append(fact)
    share = tokens // max(1, len(by_file))
    kept = [_leads_of(own, share) for own in by_file.values()]
    most = MAX_HITS // max(1, len(kept))
    return [pk for own in kept for pk in own[:most]]


def _leads_of(facts: Sequence[Fact], tokens: int) -> list[int]:
    deepest = max((len(path) for _, _, path, _, _ in facts), default=0)
    chosen: list[Fact] = []
    for level in range(deepest, 0, -1):
        chosen = _firsts(facts, [tuple(path[:level]) for _, _, path, _, _ in facts])
        if _cost(chosen) <= tokens:
            break
    if len(chosen) < 2:
        chosen = _firsts(facts, [page for _, _, _, page, _ in facts])
    if len(chosen) < 2:
        chosen = list(facts)
    kept, spent = list[int](), 0
    for fact in chosen:
        spent += fact[4] + _FRAME_TOKENS
        if kept and spent > tokens:
            break
        kept.append(fact[0])
    return kept


def _firsts(facts: Sequence[Fact], keys: Sequence[object]) -> list[Fact]:
    firsts: dict[object, Fact] = {}
    for fact, key in zip(facts, keys, strict=True):
        firsts.setdefault(key, fact)
    return list(firsts.values())


def _cost(facts: Iterable[Fact]) -> int:
    return sum(fact[4] + _FRAME_TOKENS for fact in facts)


def _hit(row: models.Chunk, rank: int, names: Mapping[int, str]) -> Hit:
    return Hit(
        text=row.text,
        rank=rank,
        score=1.0,
        file_name=names[row.file_id],
        content_type=row.content_type,
        chunk_id=row.pk,
        revision=row.revision,
        store_id=row.store_id,
        file_id=row.file_id,
        char_start=row.char_start,
        char_end=row.char_end,
        page_first=row.page_first,
        page_last=row.page_last,
        heading_path=tuple(row.heading_path),
        table_header=row.context,
        token_count=row.token_count,
    )
