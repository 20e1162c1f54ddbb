"""Source list under an answer: one line a citation, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag.stages.text.normalize import normalize_quote
from rag.stages.text.terms import is_han


class _English:
    title, unnamed, page, remark = "[Sources]", "unknown", ", p. {page}", " ({remark})"
    verdicts: Mapping[str, str] = {
        "abridged": "the quote leaves words out",
        "altered": "differs from the source",
        "cut": "the quote is cut short",
        "wrong_document": "the words stand here, not where it was said",
        "unknown": "no support found",
    }


class _Chinese(_English):
    title, unnamed, page, remark = "【参考来源】", "未知", "，第 {page} 页", "（{remark}）"
    verdicts: Mapping[str, str] = {
        "abridged": "引文有省略",
        "altered": "与原文不完全一致",
        "cut": "引文不完整",
        "wrong_document": "引文出自此处，而非所标来源",
        "unknown": "未找到依据",
    }


def list_sources(citations: Sequence[Mapping[str, Any]]) -> str:
    """Return a heading and ``[n] type - name`` for each citation, or an empty text for none.

    Citations need an ``id``; of ``source`` (type, name), ``page`` and ``verdict`` what is known is
    shown. Whatever is not verified says so. The wording is Chinese when what is cited is.
    """
    if not citations:
        return ""
    cited = " ".join(
        str(citation.get(key) or "") for citation in citations for key in ("claim", "quote")
    )
    names = " ".join(str((citation.get("source") or {}).get("name", "")) for citation in citations)
    wording = _Chinese if is_han(cited if cited.strip() else names) else _English
    return "\n".join([f"\n\n{wording.title}", *(_line(one, wording) for one in citations)])


def _line(citation: Mapping[str, Any], wording: type[_English]) -> str:
    source = citation.get("source") or {}
    kind, name = source.get("type") or wording.unnamed, source.get("name") or wording.unnamed
    page = citation.get("page")
    place = "" if page is None else wording.page.format(page=page)
    remark = wording.verdicts.get(_verdict(citation), "")
    return "".join(
        [
            f"[{citation.get('id', '?')}] {_one_line(kind)} - {_one_line(name)}{place}",
            wording.remark.format(remark=remark) if remark else "",
        ]
    )


def _verdict(citation: Mapping[str, Any]) -> str:
    verdict = str(citation.get("verdict") or "verified")
    quote, found = normalize_quote(str(citation.get("quote") or "")).text, citation.get("found")
    if verdict == "altered" and quote and found:
        is_part = quote.strip("'.,;:!?") in normalize_quote(str(found)).text
        return "cut" if is_part and len(quote) < len(normalize_quote(str(found)).text) else verdict
    return verdict


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())
