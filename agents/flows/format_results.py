"""Results of sources for a prompt. In: results by source, a budget. Out: numbered text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


def format_results(results: Mapping[str, Any], limit: int, count: Callable[[str], int]) -> str:
    """Return the results as text under one heading per source, at most ``limit`` tokens.

    Results are numbered through all sources, so that a number means one result. All first
    results come before all second ones; where some had no place a line says how many.
    """
    listed = {name: one if isinstance(one, list) else [one] for name, one in results.items() if one}
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
    return _laid_out(texts, kept)


def _laid_out(texts: Mapping[str, list[str]], kept: Mapping[str, list[str]]) -> str:
    parts, number = [], 0
    for name, found in texts.items():
        parts.append(f"## {name}")
        for text in kept[name]:
            number += 1
            parts.append(f"[{number}] {text}")
        n_left_out = len(found) - len(kept[name])
        if n_left_out:
            parts.append(f"({n_left_out} more left out)")
    return "\n\n".join(parts)


def _text(result: Any) -> str:
    if not isinstance(result, dict):
        return _written(result)
    if not isinstance(result.get("content"), str):
        return "\n".join(
            f"{key}: {_written(one)}" for key, one in result.items() if one is not None
        )
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
