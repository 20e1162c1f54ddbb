"""Data source ``faiss``: nearest rows of an existing FAISS index, with text and metadata.

Texts come from a JSON Lines file beside the index. Pickles, as LangChain writes them, run code
when they are read and are never opened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from django.utils.translation import gettext, gettext_noop
from numpy.typing import NDArray

from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import SourceQuery, SourceResult
from rag.plugins.rows.index_folder import FileCache, index_path
from rag.plugins.rows.json_lines import JsonLines
from rag.stages.ranking.similarity import distance_to_similarity
from rag.stages.sql.json_safe import json_safe

_REQUIREMENT = "faiss-cpu==1.15.1"
# How many times more rows are asked for where filters may drop most of them.
_WIDER = 10


@register("source")
class FaissSource:
    """Searches an index with the vectors of the embedding model that it was made with."""

    name = "faiss"
    label = gettext_noop("FAISS index")
    hosts = ()

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What a data source of this type is told."""

        path: str = option(help="Index file within the folder for indexes.")
        texts: str = option("", help="JSON Lines file of the rows; none: the index's, as .jsonl.")
        id_field: str = option(
            "", help="Field with the index's own ids; none: the line is the position."
        )
        text_field: str = option("text", help="Field that is the text.")
        title_field: str = option("source", help="Field that names where a row is from.")
        embedding_model: str = option(
            "", help="provider:model that made the index; none: the configured one."
        )
        top_k: int = option(5, help="Maximum hits.", minimum=1, maximum=200)
        similarity_threshold: float | None = option(None, help="Minimum score of a hit.")
        filters: dict[str, Any] = option({}, help="Fields that a row must have; a list: one of it.")
        content_type: str = option("text", help="What a row is called, such as manual.")

    def __init__(self, options: Options) -> None:
        self._options = options
        self._index_path = index_path(options.path)
        texts = options.texts or str(Path(options.path).with_suffix(".jsonl"))
        if Path(texts).suffix in (".pkl", ".pickle"):
            raise ConfigurationError(
                "{file} is a pickle, which could run code and is never opened.",
                hint="Write its texts as JSON Lines, one object for each vector, in their order.",
                file=texts,
            )
        self._texts_path = index_path(texts)

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the nearest rows; raise ConfigurationError for an index that does not fit."""
        deadline = query.deadline
        index = _INDEXES.get(self._index_path, deadline=deadline)
        texts = _texts(self._options.id_field).get(self._texts_path, deadline=deadline)
        if not self._options.id_field and len(texts) != index.ntotal:
            raise ConfigurationError(
                "The index {path} holds {n} vectors and its texts {lines} lines.",
                hint="Write one line for each vector, or name the id_field.",
                path=self._options.path,
                n=index.ntotal,
                lines=len(texts),
            )
        deadline.check()
        vector = np.asarray(
            query.ports.embed_query(query.text, model=self._options.embedding_model)
        )
        if vector.shape != (index.d,):
            raise ConfigurationError(
                "The index {path} has {expected} dimensions and the question’s vector {found}.",
                hint="Name the embedding_model that made the index.",
                path=self._options.path,
                expected=index.d,
                found=vector.shape[-1],
            )
        return self._nearest(index, texts, vector, deadline)

    def _nearest(
        self, index: Any, texts: JsonLines, vector: NDArray[np.float32], deadline: Deadline
    ) -> SourceResult:
        top_k, total = self._options.top_k, int(index.ntotal)
        n_asked = min(top_k * (_WIDER if self._options.filters else 1), total)
        hits: list[Hit] = []
        n_lost = 0
        while n_asked:
            deadline.check()
            distances, ids = index.search(vector[None, :].astype(np.float32), n_asked)
            # Where an index finds fewer than asked it fills up with -1.
            found = [
                (int(key), _score(float(distance), index.metric_type))
                for key, distance in zip(ids[0], distances[0], strict=True)
                if key >= 0
            ]
            hits, n_lost = self._hits(found, texts)
            if len(hits) == top_k or not self._options.filters or n_asked == total:
                break
            n_asked = min(n_asked * _WIDER, total)
        deadline.check()
        note = gettext("{n} vectors have no text.").format(n=n_lost)
        return SourceResult(tuple(hits), (note,) if n_lost else ())

    def _hits(self, found: Sequence[tuple[int, float]], texts: JsonLines) -> tuple[list[Hit], int]:
        options, hits, n_lost = self._options, list[Hit](), 0
        least = -math.inf if options.similarity_threshold is None else options.similarity_threshold
        rows = texts.rows([key for key, score in found if score >= least])
        for key, score in found:
            if score < least or len(hits) == options.top_k:
                continue
            row = dict(rows.get(key, {}))
            text, inner = row.pop(options.text_field, None), row.pop("metadata", None)
            if not isinstance(text, str) or not text.strip():
                n_lost += 1
                continue
            metadata = json_safe({**row, **(inner if isinstance(inner, dict) else {})})
            if all(_holds(metadata.get(name), value) for name, value in options.filters.items()):
                hits.append(
                    Hit(
                        text=json_safe(text),
                        rank=len(hits) + 1,
                        score=score,
                        source=self.name,
                        file_name=str(metadata.get(options.title_field) or options.path),
                        content_type=options.content_type,
                        external_id=str(key),
                        metadata=metadata,
                    )
                )
        return hits, n_lost


def _holds(found: Any, wanted: Any) -> bool:
    return found in wanted if isinstance(wanted, list) else bool(found == wanted)


def _score(distance: float, metric: int) -> float:
    # 0 and 1 are FAISS's own numbers of the inner product and of L2.
    return (
        distance
        if metric == 0
        else distance_to_similarity(distance, "l2" if metric == 1 else "other")
    )


def _read_index(path: Path, deadline: Deadline) -> Any:
    try:
        import faiss  # an extra: 66 MB that only these sources need
    except ImportError as error:
        raise ConfigurationError(
            "The source “{name}” needs a package that is not installed ({reason}).",
            hint="Run: pip install {requirement}",
            name=FaissSource.name,
            reason=error,
            requirement=_REQUIREMENT,
        ) from error
    try:
        return faiss.read_index(str(path))
    except RuntimeError as error:
        raise ConfigurationError(
            "{file} cannot be read as a FAISS index: {reason}",
            hint="Write it with faiss.write_index; indexes of bits are not searched.",
            file=path.name,
            reason=str(error).rpartition("Error: ")[2][:200],
        ) from error


_INDEXES = FileCache(_read_index)


@lru_cache(maxsize=8)
def _texts(id_field: str) -> FileCache[JsonLines]:
    return FileCache(partial(JsonLines, key_field=id_field))
