"""Citations for a text that was written from results. In: both, as dicts. Out: a JSON-safe dict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.types import Citation
from rag.services.pinned_texts import pinned_hits
from rag.stages.attribute import attribute_claims
from rag.stages.cite import verify_citations
from rag.stages.context import Passage
from rag.stages.list_sources import list_sources
from rag.stages.markers import Marker, read_markers


class CitationManager:
    """Says which of its sources a text rests on, and lists them."""

    @staticmethod
    def add_citations(
        generated_text: str,
        rag_results: Sequence[Mapping[str, Any]],
        *,
        scope: Scope | None = None,
        is_strict: bool = False,
    ) -> dict[str, Any]:
        """Return ``text`` with ``[n]`` for each citation, ``citations`` and ``citation_count``.

        The model's own markers are used when there are any (``method`` markers); otherwise each
        sentence is attributed by its words (attribution). ``unsupported`` are the claims that no
        result supports. Results are cited as ``doc_01`` and so on in their order, or by their
        ``doc_id``. With a ``scope`` our chunks are read anew, in their pinned revision and if the
        scope may; without it the given contents are the truth. ``is_strict`` accepts only whole
        sentences as quotes. Raises InvalidInputError for a result without content.
        """
        passages = _passages(rag_results, scope)
        has_markers = any(isinstance(part, Marker) for part in read_markers(generated_text))
        if has_markers:
            text, citations = verify_citations(generated_text, passages, is_strict=is_strict)
            likeness = [_likeness(citation) for citation in citations]
            unsupported = [one.claim or one.quote for one in citations if one.verdict == "unknown"]
        else:
            found = attribute_claims(generated_text, passages)
            text, citations, likeness = found.text, found.citations, list(found.scores)
            unsupported = list(found.unsupported)
        by_id = {passage.doc_id: passage.hit for passage in passages}
        entries = [
            _entry(citation, by_id.get(citation.doc_id), like, is_pinned=scope is not None)
            for citation, like in zip(citations, likeness, strict=True)
        ]
        return {
            "text": text,
            "citations": entries,
            "citation_count": len(entries),
            "unsupported": unsupported,
            "method": "markers" if has_markers else "attribution",
        }

    @staticmethod
    def format_citations(citations: Sequence[Mapping[str, Any]]) -> str:
        """Return the list of sources to put under a text; empty without citations.

        It is worded in the language of what is cited, and says of each citation that is not
        verified what is wrong with it.
        """
        return list_sources(citations)


def _passages(results: Sequence[Mapping[str, Any]], scope: Scope | None) -> list[Passage]:
    hits: Sequence[Hit] = [Hit.from_dict(result) for result in results]
    if scope is not None:
        hits = pinned_hits(hits=hits, scope=scope)
    names = [str(result.get("doc_id") or f"doc_{n:02d}") for n, result in enumerate(results, 1)]
    if len(set(names)) < len(names):
        raise InvalidInputError(
            "Two results have the same “doc_id”.", hint="Give each one of its own, or none."
        )
    return [Passage(name, hit, hit.text) for name, hit in zip(names, hits, strict=True)]


def _likeness(citation: Citation) -> float:
    """Return how much of the quote stands in its source, 0 to 1."""
    if citation.verdict == "unknown":
        return 0.0
    longest = max(len(citation.quote), len(citation.found), 1)
    return round(max(0.0, 1 - citation.distance / longest), 4)


def _entry(
    citation: Citation, hit: Hit | None, likeness: float, *, is_pinned: bool
) -> dict[str, Any]:
    values = asdict(citation)
    is_known = hit is not None and bool(hit.text)
    source = {"type": "", "name": citation.doc_id, "id": ""}
    if hit is not None and is_known:
        source = {"type": hit.content_type, "name": hit.file_name, "id": hit.document_id}
    return {
        "id": values.pop("number"),
        "source": source,
        "relevance": (hit.score or 0.0) if hit is not None and is_known else 0.0,
        "likeness": likeness,
        "is_pinned": is_pinned and citation.chunk_id is not None,
        **values,
    }
