"""Suggested questions: what the documents of stores can be asked, made of their headings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rag import models
from rag.core.access import Scope
from rag.stages.text.terms import is_han

# The newest files are enough to choose from, and so are the chunks at their beginnings.
MAX_FILES, MAX_CHUNKS = 12, 400
_LENGTHS = range(2, 41)
_NUMBERING = re.compile(
    r"^\s*(?:[\dA-Z]{1,3}(?:\.\d{1,3})*[.)、．]?\s+|第[^\s第]{1,5}[章节條条篇部]\s*|[一二三四五六七八九十]{1,3}[、.．]\s*)"
)
_WORD = re.compile(r"[^\W\d_]{2}")
_ASKED = {
    True: ("“{file}”里关于“{heading}”是怎么说的？", "总结一下“{file}”"),
    False: ("What does “{file}” say about “{heading}”?", "Summarize “{file}”"),
}


def suggest_questions(
    *, stores: Sequence[models.Store], scope: Scope, is_chinese: bool, limit: int = 4
) -> list[str]:
    """Return up to ``limit`` questions that the readable files of the stores answer.

    Each is about a section of a file, the longest first, the newest files first; a file without
    headings is to be summarized. A question is in the language of its heading, and those in the
    reader's come first.
    """
    files = models.File.objects.readable(scope).filter(
        store__in=[store.pk for store in stores], n_chunks__gt=0
    )
    names = dict(files.order_by("-pk").values_list("pk", "name")[:MAX_FILES])
    chunks = models.Chunk.objects.readable(scope).live().filter(file_id__in=names, enabled=True)
    rows = chunks.order_by("-file_id", "char_end").values_list(
        "file_id", "heading_path", "token_count"
    )
    paths: dict[int, list[tuple[list[str], int]]] = defaultdict(list)
    for file_id, path, n_tokens in rows[:MAX_CHUNKS]:
        paths[file_id].append((path, n_tokens))
    found = [list(_questions(names[pk], sections)) for pk, sections in paths.items()]
    turns = [questions[n] for n in range(limit) for questions in found if len(questions) > n]
    return sorted(turns, key=lambda question: is_han(question) is not is_chinese)[:limit]


def _questions(name: str, paths: Sequence[tuple[Sequence[str], int]]) -> Iterable[str]:
    sizes: Counter[str] = Counter()
    # What stands above all is the title: to ask a document about it is to ask for all of it.
    has_title = len({path[0] for path, _ in paths if path}) == 1
    for path, n_tokens in paths:
        if len(path) > has_title:
            sizes[_NUMBERING.sub("", path[-1]).strip(" :：")] += n_tokens
    known = [one for one, _ in sizes.most_common() if len(one) in _LENGTHS and _WORD.search(one)]
    for heading in known:
        yield _ASKED[is_han(heading)][0].format(file=name, heading=heading)
    if not known:
        yield _ASKED[is_han(name)][1].format(file=name)
