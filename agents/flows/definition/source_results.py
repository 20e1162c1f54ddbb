"""Source results in a flow's state, and their prompt text within a token budget."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.core.cited_answers import RunPassages, number_of
from rag.core.hits import TOOL, Hit, hit_chunk_ids


def listed_results(results: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the results of each source that has some, as lists."""
    return {name: one if isinstance(one, list) else [one] for name, one in results.items() if one}


def format_results(
    results: Mapping[str, Any],
    limit: int,
    count: Callable[[str], int],
    passages: RunPassages | None = None,
) -> str:
    """Return the results as text under one heading per source, at most ``limit`` tokens.

    Each has the number of its passage; without ``passages`` they are counted through all sources.
    All first results come before all second ones; where some had no place a line says how many.
    """
    listed = listed_results(results)
    texts = {name: [_text(one) for one in found] for name, found in listed.items()}
    kept: dict[str, list[str]] = {name: [] for name in texts}
    left = limit - sum(count(name) + 8 for name in texts)
    is_full: set[str] = set()
    for rank in range(max(map(len, texts.values()), default=0)):
        for name, found in texts.items():
            if rank < len(found) and name not in is_full:
                cost = count(found[rank]) + 6
                if cost > left:
                    is_full.add(name)
                    continue
                kept[name].append(found[rank])
                left -= cost
    ids: dict[str, list[str]] = {}
    if passages is not None:
        ids = {name: [passages.doc_id(one) for one in hits_of(name, listed[name])] for name in kept}
    return _laid_out(texts, kept, ids)


def _laid_out(
    texts: Mapping[str, list[str]], kept: Mapping[str, list[str]], ids: Mapping[str, list[str]]
) -> str:
    parts, n_shown = [], 0
    for name, found in texts.items():
        parts.append(f"## {name}")
        for at, text in enumerate(kept[name]):
            n_shown += 1
            number = number_of(ids[name][at]) if ids else n_shown
            parts.append(f"[{number}] {text}" if number else text)
        n_left_out = len(found) - len(kept[name])
        if n_left_out:
            parts.append(f"({n_left_out} more left out)")
    return "\n\n".join(parts)


def hits_of(name: str, results: Sequence[Any], found: Sequence[Hit] = ()) -> list[Hit]:
    """Return what can be cited of a source's results, as a model is shown them.

    ``found`` are the hits that they were made of, which know more of their place.
    """
    hits = []
    for at, result in enumerate(results):
        hit = found[at] if at < len(found) else _hit_of(name, result, at + 1)
        if hit.chunk_id is None:
            hit = replace(hit, source=name, text=_body(result), data=None)
        hits.append(hit)
    return hits


def tool_hits(name: str, answer: Mapping[str, Any]) -> list[Hit]:
    """Return what can be cited of a tool's answer: the results that it found, or all of it."""
    results = answer.get("results")
    if isinstance(results, list):
        return hits_of(name, results)
    if answer.keys() == {"error"}:
        return []
    return [Hit(text=_body(answer), rank=1, source=TOOL, file_name=name)]


def _hit_of(name: str, result: Any, rank: int) -> Hit:
    if isinstance(result, dict) and isinstance(result.get("content"), str):
        place = result.get("metadata")
        metadata = place if isinstance(place, dict) else {}
        chunks = hit_chunk_ids(result) or hit_chunk_ids(metadata)
        revision = result.get("revision", metadata.get("revision"))
        # What other sources keep under the same name comes without a revision of ours.
        if chunks and isinstance(revision, int):
            part = {"revision": revision, "char_start": 0, "char_end": 0}
            merged = {"chunks": [{"chunk_id": pk, **part} for pk in chunks]}
            return Hit(
                text=result["content"],
                rank=rank,
                file_name=_place(result),
                chunk_id=chunks[0],
                revision=revision,
                data=merged if len(chunks) > 1 else None,
            )
        return Hit(text=result["content"], rank=rank, file_name=_place(result) or name)
    return Hit(text="", rank=rank, file_name=name)


def _body(result: Any) -> str:
    if not isinstance(result, dict):
        return _written(result)
    if isinstance(result.get("content"), str):
        return str(result["content"])
    return "\n".join(f"{key}: {_written(one)}" for key, one in result.items() if one is not None)


def _text(result: Any) -> str:
    if not isinstance(result, dict) or not isinstance(result.get("content"), str):
        return _body(result)
    place = _place(result)
    score = result.get("score")
    shown = f"{place} ({score:.2f})" if isinstance(score, float) else place
    return f"{shown}\n{result['content']}".strip()


def _place(result: Mapping[str, Any]) -> str:
    # Rows of a database may have columns of these names that hold anything.
    given, source, path = (result.get(name) for name in ("metadata", "source", "heading_path"))
    metadata = given if isinstance(given, dict) else {}
    # A raw result has its place beside its metadata.
    name = source.get("name") if isinstance(source, dict) else metadata.get("source")
    page = result.get("page_first") or metadata.get("page")
    headings = map(str, path) if isinstance(path, list) else ()
    section = " > ".join(headings) or metadata.get("section")
    parts = [name, f"p. {page}" if page else None, section]
    return ", ".join(str(part) for part in parts if part)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


_UNNAMED = re.compile(r"\W+")


def shape_results(hits: Sequence[Hit], result_format: str) -> list[dict[str, Any]]:
    """Return hits as ``structured`` or ``raw`` results.

    Structured: rows and items of which nothing was chosen are their data; others, and chunks, are
    content, score and metadata with source, page and section, beside their data. Raw: all that is
    known of a hit.
    """
    return [hit.as_dict() if result_format == "raw" else _structured(hit) for hit in hits]


def fit_results(
    results: Mapping[str, Sequence[dict[str, Any]]], limit: int, count: Callable[[str], int]
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """Return as many results as ``limit`` tokens hold, and the names of sources that were cut.

    All first results come before all second ones, so that no source takes the place of others.
    A first result too long by its content is shortened rather than left out.
    """
    kept: dict[str, list[dict[str, Any]]] = {name: [] for name in results}
    cut: dict[str, None] = {}
    left = limit
    for rank in range(max(map(len, results.values()), default=0)):
        for name, found in results.items():
            if rank >= len(found) or name in cut:
                continue
            result: dict[str, Any] | None = found[rank]
            cost = count(json.dumps(result, ensure_ascii=False))
            if cost > left:
                cut[name] = None
                result = _shortened(found[rank], left, cost) if rank == 0 else None
                cost = count(json.dumps(result, ensure_ascii=False)) if result else 0
            if result is not None and cost <= left:
                kept[name].append(result)
                left -= cost
    return kept, list(cut)


def dependent_values(
    name: str, results: Sequence[Mapping[str, Any]], hits: Sequence[Hit] = ()
) -> dict[str, Any]:
    """Return what sources that depend on ``name`` may put into their queries.

    ``{name}`` is the list of results, ``{name__field}`` a field of the first one (None without
    any), ``{name__all__field}`` the list of that field. Other signs in names become _. With the
    ``hits`` that the results were made of, fields have the same names in every format.
    """
    key = _UNNAMED.sub("_", name)
    values: dict[str, Any] = {key: list(results)}
    found = [_fields(one, hits[at] if at < len(hits) else None) for at, one in enumerate(results)]
    for field in dict.fromkeys(field for one in found for field in one):
        suffix = _UNNAMED.sub("_", field)
        values[f"{key}__{suffix}"] = found[0].get(field)
        values[f"{key}__all__{suffix}"] = [one.get(field) for one in found]
    return values


def _fields(result: Mapping[str, Any], hit: Hit | None) -> Mapping[str, Any]:
    if hit is None:
        return result
    data = hit.data if hit.chunk_id is None else None
    place = _structured(hit).get("metadata")
    return {**(place if isinstance(place, dict) else {}), **result, **(data or {})}


def _structured(hit: Hit) -> dict[str, Any]:
    # A merged chunk has data too: the chunks that it was made of.
    data = hit.data if hit.chunk_id is None else None
    if data is not None and _is_all_of(hit, data):
        return dict(data)
    place = {
        "source": hit.file_name,
        "page": hit.page_first,
        "section": " > ".join(hit.heading_path),
        "document_id": hit.document_id,
        "chunk_id": hit.chunk_id,
        "revision": hit.revision,
        "chunk_ids": list(hit.chunk_ids) if hit.data and data is None else None,
    }
    metadata = {**hit.metadata, **{name: one for name, one in place.items() if one is not None}}
    return {**(data or {}), "content": hit.text, "score": hit.score, "metadata": metadata}


def _is_all_of(hit: Hit, data: Mapping[str, Any]) -> bool:
    """Return whether a row or item is its own text: nothing of it was chosen as content."""
    named = next((name for name, value in data.items() if value is not None), None)
    is_text = not hit.text or named is None or hit.text.startswith(f"{named}: ")
    return is_text and hit.score is None and not hit.metadata


def _shortened(result: dict[str, Any], left: int, cost: int) -> dict[str, Any] | None:
    content = result.get("content")
    if not isinstance(content, str) or not content:
        return None
    around = cost * (1 - len(content) / max(1, len(json.dumps(result, ensure_ascii=False))))
    share = (left - around) / cost * 0.8
    n_kept = int(len(content) * share)
    return {**result, "content": content[:n_kept] + "…"} if n_kept >= 20 else None
