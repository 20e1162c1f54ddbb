"""Completion text: an answer's events with stop sequences, footnotes and token counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.core.chat_events import ChatEvent, Transcript
from rag.services.tokens import count_tokens
from rag.stages.text.terms import is_han


class StopSequences:
    """Ends a text before the first stop sequence that is complete, in whatever pieces it comes."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(filter(None, stops))
        self._held = ""
        self.is_cut = False

    def feed(self, text: str) -> str:
        """Return what is certainly shown; the beginning of a stop sequence is held back."""
        if self.is_cut:
            return ""
        self._held += text
        ends = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.is_cut = True
            return self._held[: min(ends)[1]]
        keep = max((_begun(self._held, stop) for stop in self._stops), default=0)
        shown, self._held = self._held[: len(self._held) - keep], self._held[-keep:] if keep else ""
        return shown

    def finish(self) -> str:
        """Return what was held back and has become no stop sequence."""
        rest, self._held = ("" if self.is_cut else self._held), ""
        return rest


def _begun(text: str, stop: str) -> int:
    """Return the length of the longest beginning of ``stop`` that ``text`` ends with."""
    for n in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0


_RULE = "\n\n---\n"
_BLOCK = re.compile(rf"{_RULE}(?:(?:\[\d+\]|⚠) [^\n]*(?:\n|\Z))+\Z")
_SHARE = {
    True: "资料中找到了 {all} 条陈述中的 {n} 条。",
    False: "{n} of {all} {statements} found in the sources.",
}
_UNHELD = {
    ("unsupported", True): "资料中没有找到：“{text}”",
    ("unsupported", False): "Not found in the sources: “{text}”",
    ("contradicted", True): "与资料不符：“{text}”",
    ("contradicted", False): "The source says otherwise: “{text}”",
}
_WITHDRAWN = {True: "以上内容已撤回。", False: "What stands above is withdrawn."}
_MARKS = re.compile(r"\[\d{1,4}\]")


def footnotes(
    *,
    citations: Sequence[Mapping[str, Any]],
    text: str,
    grounding: Mapping[str, Any] | None = None,
) -> str:
    """Return what stands below a rule: statements that no source says, and the citations.

    Those are told that ``text`` holds, or has a mark of; nothing where there are none.
    """
    lines = [
        *_unheld_lines(grounding or {}, text),
        *(_line(one) for one in citations if f"[{one['number']}]" in text),
    ]
    return _RULE + "\n".join(lines) if lines else ""


def _unheld_lines(grounding: Mapping[str, Any], text: str) -> list[str]:
    language = is_han(text)
    unheld = [
        (one["verdict"], " ".join(_MARKS.sub("", text[one["start"] : one["end"]]).split()))
        for one in grounding.get("statements", ())
        if one["verdict"] in ("unsupported", "contradicted") and one["end"] <= len(text)
    ]
    if not unheld:
        return []
    n_all = grounding["n_statements"]
    words = "statement" if n_all == 1 else "statements"
    share = _SHARE[language].format(n=grounding["n_found"], all=n_all, statements=words)
    told = [_UNHELD[verdict, language].format(text=words) for verdict, words in unheld]
    return [f"⚠ {line}" for line in (share, *told)]


def strip_footnotes(*, text: str) -> str:
    """Return a text as it was before ``footnotes`` were added."""
    return _BLOCK.sub("", text)


def _line(cited: Mapping[str, Any]) -> str:
    page = f", p. {cited['page']}" if cited.get("page") else ""
    mark = "" if cited["verdict"] == "verified" else f" ({cited['verdict']})"
    quote = " ".join(str(cited["quote"]).split())
    return f"[{cited['number']}] {cited.get('file_name') or '?'}{page}: “{quote}”{mark}"


_PLACE = (
    "doc_id",
    "source_name",
    "document_id",
    "chunk_id",
    "revision",
    "store_id",
    "file_id",
    "page_first",
    "char_start",
    "char_end",
    "score",
)


@dataclass(slots=True)
class OpenAIAnswer:
    """An answer so far. ``holds`` keeps the text back to its end: it may still be replaced.

    ``error`` is the data of the last event when the answer failed.
    """

    stops: Sequence[str] = ()
    has_footnotes: bool = False
    holds: bool = False
    transcript: Transcript = field(default_factory=Transcript)
    shown: str = ""
    started: Mapping[str, Any] = field(default_factory=dict)
    finished: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    _usage: Mapping[str, Any] = field(default_factory=dict)
    _begins: int = 0
    _cut: StopSequences = field(default_factory=StopSequences)

    def __post_init__(self) -> None:
        self._cut = StopSequences(self.stops)

    @property
    def is_cut(self) -> bool:
        """Return whether a stop sequence came: nobody is shown what follows."""
        return self._cut.is_cut

    def take(self, event: ChatEvent) -> str:
        """Take in an event; return the text that it adds to what is shown."""
        if not self.is_cut:
            self.transcript.add(event.kind, event.data)
        if event.kind == "start":
            self.started = event.data
        elif event.kind == "usage":
            self._usage = event.data
        elif event.kind in ("done", "stopped"):
            self.finished = event.data
        elif event.kind == "error":
            self.error = event.data
        if self.holds or self.is_cut or event.kind not in ("delta", "replace"):
            return ""
        text = event.data["text"]
        if event.kind == "replace":
            text = self._instead(text, is_withdrawn=bool(text or event.data.get("withdrawn")))
        return self._show(self._cut.feed(text))

    def finish(self) -> str:
        """Return the rest of the text, with the footnotes if these were asked for."""
        rest = self._cut.feed(self.transcript.text) if self.holds else ""
        rest += self._cut.finish()
        shown = self._show(rest)
        if not self.has_footnotes:
            return shown
        grounding = self.finished.get("grounding")
        # Statements lie in the answer, which begins behind what could not be taken back.
        answer = self.shown[self._begins :]
        below = footnotes(citations=self.citations, text=answer, grounding=grounding)
        return shown + self._show(below)

    @property
    def citations(self) -> list[dict[str, Any]]:
        """Return the citations of what is shown."""
        citations, shown = self.transcript.citations, self.shown
        return [one for one in citations if not self.is_cut or f"[{one['number']}]" in shown]

    @property
    def finish_reason(self) -> str:
        """Return ``length`` where the model reached the most tokens, else ``stop``."""
        return "length" if self._usage.get("finish_reason") == "length" else "stop"

    def usage(self, prompt: str) -> dict[str, int]:
        """Return the tokens as the model counted them; those it did not count are estimated."""
        asked = self._usage.get("input_tokens")
        written = self._usage.get("output_tokens")
        n_in = count_tokens(prompt) if asked is None else int(asked)
        n_out = count_tokens(self.shown) if written is None else int(written)
        return {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}

    def about(self, ignored: Sequence[str]) -> dict[str, Any]:
        """Return what only this server tells: keys, outcome, what was looked at, notices.

        ``text`` is there when the answer was replaced after its text had been sent.
        """
        about = {
            "message": self.started.get("message"),
            "session": self.started.get("session"),
            "outcome": self.finished.get("outcome"),
            "confidence": self.finished.get("confidence"),
            "grounding": self.finished.get("grounding") or {},
            "sources": [_serialize_source(one) for one in self.transcript.sources],
            "notices": self.transcript.notices,
            "ignored": list(ignored),
        }
        is_other = not self.is_cut and not self.shown.startswith(self.transcript.text)
        return {**about, "text": self.transcript.text} if is_other else about

    def _instead(self, text: str, *, is_withdrawn: bool) -> str:
        """Return what to add where a text takes the place of one that cannot be taken back.

        One that was no answer says so; words before the call of a tool are only a paragraph.
        """
        self._cut = StopSequences(self.stops)
        if text.startswith(self.shown):
            return text[len(self.shown) :]
        told = f"\n\n⚠ {_WITHDRAWN[is_han(self.shown)]}" if is_withdrawn else ""
        self._begins = len(self.shown) + len(told) + 2
        return f"{told}\n\n{text}"

    def _show(self, text: str) -> str:
        self.shown += text
        return text


def _serialize_source(source: Mapping[str, Any]) -> dict[str, Any]:
    name = (source.get("source") or {}).get("name", "")
    return {"name": name, **{key: source.get(key) for key in _PLACE}}
