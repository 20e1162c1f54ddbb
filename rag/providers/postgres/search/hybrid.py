"""Hybrid statement: candidates of both legs filtered by access, scored in both, and fused.

Whoever proposes the candidates, this is the one place that scores and fuses them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rag.core.hits import Hit, Leg
from rag.core.ports import IndexQuery
from rag.providers.postgres.db.connections import fetch_rows, fetch_search_rows
from rag.providers.postgres.db.literals import vector_literal
from rag.providers.postgres.lexical.bm25 import term_key
from rag.stages.text.simplified import simplify_chinese

# OFFSET keeps the planner from turning the question round and beginning with all such files.
_METADATA = (
    "EXISTS (SELECT FROM rag_file d WHERE d.id = x.file_id"
    " AND d.metadata @> %(metadata)s::jsonb OFFSET 0)"
)


def filter_conditions(query: IndexQuery, store_ids: Sequence[int]) -> str:
    """Return the conditions of both legs on alias ``x``; the access rule among them.

    What they bind is in ``filter_values``.
    """
    stores = ",".join(str(int(store_id)) for store_id in store_ids)
    is_in = f"= {stores}" if len(store_ids) == 1 else f"IN ({stores})"
    parts = [f"x.store_id {is_in}", "x.enabled"]
    open_ids = [
        str(target.store_id)
        for target in query.targets
        if target.sees_restricted and target.store_id in store_ids
    ]
    if len(open_ids) < len(store_ids):
        rule = "x.restricted IS NULL OR x.restricted && %(groups)s::int[]"
        if open_ids:
            rule += f" OR x.store_id IN ({','.join(open_ids)})"
        parts.append(f"({rule})")
    if query.settings.content_types:
        parts.append("x.content_type = ANY(%(types)s)")
    if query.files is not None:
        parts.append("x.file_id = ANY(%(files)s::bigint[])")
    elif query.settings.metadata:
        parts.append(_METADATA)
    return " AND ".join(parts)


def filter_values(query: IndexQuery) -> dict[str, Any]:
    """Return the values that ``filter_conditions`` binds."""
    return {
        "groups": sorted(query.group_ids),
        "types": list(query.settings.content_types),
        "files": list(query.files.file_ids) if query.files else [],
        "metadata": json.dumps(dict(query.settings.metadata)),
    }


def leaves_out_files(query: IndexQuery) -> bool:
    """Return whether some files cannot be found, whoever may read them."""
    asked = query.settings
    return bool(query.files is not None or asked.content_types or asked.metadata)


_FOLDER = Path(__file__).parent
_QUESTION = (_FOLDER / "question.sql").read_text(encoding="utf-8").rstrip()
STATEMENT = (_FOLDER / "hybrid.sql").read_text(encoding="utf-8").replace("{question}", _QUESTION)
SUBSTRINGS = (_FOLDER / "substrings.sql").read_text(encoding="utf-8")
_WEIGHTS = f"WITH {_QUESTION} SELECT key, idf FROM t WHERE idf > 0".format()
# The lexical leg where a phrase is looked for in the texts too.
BOTH = "(SELECT chunk_id, max(bm25) AS bm25 FROM (TABLE l0 UNION ALL TABLE s) b GROUP BY 1)"
# How far a hit in another script than the query is trusted by its vector alone, in place of the
# words that it cannot share.
CROSS_SCRIPT = 0.75
# 0.3 of the highest BM25 that the query's terms could reach: below it, the lexical leg has found
# noise and must not be blown up to 1.
DAMPING = 0.3 * 2.2
# Beside a vector leg, words that make this part of the question's weight bring candidates enough:
# at a million chunks the ten best stay the same, in half of the time.
MASS = 0.6
# The fused score of a hit (of the statement's ``n``), by fusion and by the legs that run.
FUSED = {
    "weighted": """%(wv)s * nv + %(wb)s * CASE
      WHEN best <= 0 THEN %(cross)s * nv
      WHEN is_han = %(is_han)s THEN bm25 / best
      ELSE greatest(%(cross)s * nv,
        coalesce(least(bm25 / best, bm25 / nullif(%(damping)s * sidf, 0)), 0)) END""",
    "rrf": "coalesce(%(wv)s / (60 + vr), 0) + coalesce(%(wb)s / (60 + lr), 0)",
    "semantic": "sim",
    "keyword": "bm25",
}


@dataclass(frozen=True, slots=True)
class CandidateLegs:
    """Where candidates come from, as SQL: ``vectors`` are queries of (chunk_id, space_id, sim),
    ``words`` is a condition on ``rag_chunk_lex x``; ``params`` are the values that they bind."""

    vectors: Sequence[str]
    words: str
    params: Mapping[str, Any]
    ef_search: int = 100


def hybrid_search(query: IndexQuery, legs: CandidateLegs) -> list[Hit]:
    """Return the hits among the candidates of both legs, best first."""
    params = {**_params(query), **legs.params}
    conditions = filter_conditions(query, [target.store_id for target in query.targets])
    empty = "SELECT NULL::bigint AS chunk_id, 0 AS space_id, NULL::float8 AS sim WHERE false"
    statement = STATEMENT.format(
        filters=conditions,
        words=legs.words,
        substrings=SUBSTRINGS.format(filters=conditions) if query.phrase else "",
        lexical=BOTH if query.phrase else "l0",
        vector_branches=" UNION ALL ".join([empty, *legs.vectors]),
        space_of_store=_by_store(query, lambda target: str(target.space_id)),
        similarity=_by_store(query, _similarity(query)),
        fused=_fused(query),
    )
    # Limits are part of the plan.
    for name in ("k", "top"):
        statement = statement.replace(f"%({name})s", str(int(params.pop(name))))
    is_planned_once = not (leaves_out_files(query) or query.phrase)
    rows = fetch_search_rows(
        statement, params, ef_search=legs.ef_search, is_planned_once=is_planned_once
    )
    # Who asked for 圖書 and for 图书 asked for one word.
    names = {
        term_key(target.store_id, term): simplify_chinese(term)
        for target in query.targets
        for term in query.terms
    }
    # Hits of one file have the same metadata, and most no headings.
    loads = cache(json.loads)
    hits = [_hit(rank, row, names, loads) for rank, row in enumerate(rows, start=1)]
    return [_with_phrase(hit, query.phrase) for hit in hits] if query.phrase else hits


def candidates_per_leg(query: IndexQuery) -> int:
    """Return how many candidates each leg has at most."""
    return max(50, 2 * query.top_k)


def term_weights(query: IndexQuery) -> dict[int, float]:
    """Return what each of the question's words weighs, by its key: rare ones more."""
    return dict(fetch_rows(_WEIGHTS, _params(query)))


def _with_phrase(hit: Hit, phrase: str) -> Hit:
    if phrase not in hit.text or phrase in hit.matched_terms:
        return hit
    return replace(hit, matched_terms=tuple(sorted((*hit.matched_terms, phrase))))


def _fused(query: IndexQuery) -> str:
    fusion = _fusion(query)
    if query.phrase and fusion == "weighted":
        # Who asks for a bare word wants texts that hold it before texts that are like it.
        return f"0.5 * (lr IS NOT NULL)::int + 0.5 * ({FUSED[fusion]})"
    return FUSED[fusion]


def _fusion(query: IndexQuery) -> str:
    if not query.terms:
        return "semantic"
    if not query.vectors:
        return "keyword"
    return query.settings.fusion


def _params(query: IndexQuery) -> dict[str, Any]:
    # A key that two stores share may stand in a sparsevec only once.
    keys: dict[int, tuple[int, float, bool]] = {}
    for target in query.targets:
        for term, weight in query.terms.items():
            key = term_key(target.store_id, term)
            keys.setdefault(key, (target.store_id, weight, term in query.codes))
    settings = query.settings
    params: dict[str, Any] = {
        "keys": list(keys),
        "key_stores": [store for store, _, _ in keys.values()],
        "weights": [weight for _, weight, _ in keys.values()],
        "codes": [is_code for _, _, is_code in keys.values()],
        "k": candidates_per_leg(query),
        "top": query.top_k,
        **filter_values(query),
        "wv": float(settings.vector_weight),
        "wb": float(settings.bm25_weight),
        "is_han": query.is_han,
        "cross": CROSS_SCRIPT,
        "damping": DAMPING,
        "mass": MASS if query.vectors else 1.0,
        "phrase": query.phrase,
        "total": sum(target.n_chunks for target in query.targets),
    }
    for space_id, vector in query.vectors.items():
        params[f"e{space_id}"] = vector_literal(vector)
    return params


def _similarity(query: IndexQuery) -> Any:
    def of_target(target: Any) -> str:
        if target.space_id not in query.vectors:
            return "NULL"
        space, kind = int(target.space_id), f"halfvec({int(target.dim)})"
        return (
            f"(SELECT 1 - (e.embedding::{kind} <=> %(e{space})s::{kind})"
            f" FROM rag_chunk_vec_s{space} e WHERE e.chunk_id = c.chunk_id)"
        )

    return of_target


def _by_store(query: IndexQuery, expression: Any) -> str:
    """Return one SQL expression for all stores, or a CASE where their spaces differ."""
    cases = {target.store_id: expression(target) for target in query.targets}
    if len(set(cases.values())) == 1:
        return str(next(iter(cases.values())))
    whens = " ".join(f"WHEN {int(store)} THEN {sql}" for store, sql in cases.items())
    return f"CASE x.store_id {whens} END"


def _hit(rank: int, row: Sequence[Any], names: dict[int, str], loads: Callable[[str], Any]) -> Hit:
    return Hit(
        chunk_id=row[0],
        score=float(row[1]),
        vector=Leg(row[4], None if row[2] is None else float(row[2])),
        lexical=Leg(row[5], float(row[3]) if names else None),
        matched_terms=tuple(sorted({names[key] for key in row[6] if key in names})),
        rank=rank,
        revision=row[7],
        store_id=row[8],
        file_id=row[9],
        file_name=row[10],
        text=row[11],
        char_start=row[12],
        char_end=row[13],
        page_first=row[14],
        page_last=row[15],
        heading_path=tuple(loads(row[16])),
        content_type=row[17],
        token_count=row[18],
        metadata=loads(row[19]),
        table_header=row[20],
        parent_start=row[21],
    )
