"""One call of a chat model while it is at work. In: what goes out and comes back. Out: the ledger.

Before the call the key's budget is asked; after it, however it ended, its tokens are kept.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

from rag import models
from rag.core import watch
from rag.core.account import Account
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.providers.postgres.connections import release_db
from rag.services.budget import UNBILLED, admit
from rag.services.count_tokens import count_tokens
from rag.services.record_usage import Call, give_back
from rag.services.usage_later import keep_call, waiting_here

_OUTCOME = models.UsageRecord.Outcome


@dataclass(slots=True)
class ChatMeter:
    """Watches one call, from ``begin`` to ``end``."""

    model: str
    account: Account
    request: ChatRequest
    _hold: models.BudgetHold | None = None
    _span: watch.Span | None = None
    _texts: list[str] = field(default_factory=list)
    _last: ChatReply | None = None
    _started: float = field(default_factory=time.perf_counter)

    def begin(self, *, is_free: bool = False) -> None:
        """Raise LimitError or ForbiddenError where the key's budget does not allow the call.

        ``is_free`` says that no budget can stand against it: the database is not asked.
        """
        if self.account.key_id is not None and not is_free:
            # What it is allowed depends on what those before it have used.
            if (waiting := waiting_here()) is not None:
                waiting.write()
            self._hold = admit(
                account=self.account, model=self.model, input_tokens=self._n_asked(),
                output_tokens=self.request.max_tokens, timeout_s=self.request.timeout_s,
            )  # fmt: skip
        self._span = watch.begin_span("model", model=self.model, kind=self.account.kind)

    def see(self, piece: ChatReply) -> None:
        """Take in a piece, or the whole answer."""
        if self._last is None:
            watch.took("model_first_piece", time.perf_counter() - self._started, **self._labels())
        self._texts.append(piece.text)
        if self._last is None or piece.input_tokens is not None or piece.output_tokens is not None:
            self._last = piece

    @property
    def ends_at_once(self) -> bool:
        """Return whether ``end`` asks neither the database nor a tokenizer."""
        return self._last is not None and waiting_here() is not None and self._is_counted

    def end(self, error: BaseException | None = None) -> None:
        """Keep what was used; a call that failed before a piece came has used nothing."""
        outcome = _OUTCOME.OK if error is None else _OUTCOME.STOPPED
        if isinstance(error, Exception):
            outcome = _OUTCOME.FAILED
        seconds = time.perf_counter() - self._started
        watch.took("model_call", seconds, outcome=outcome, **self._labels())
        has_asked = not self.ends_at_once
        if self._last is None:
            give_back(hold=self._hold)
        else:
            keep_call(self._call(self._last, outcome, seconds))
        if has_asked:
            # Whoever streams on, or lets this thread end, must not keep a connection.
            release_db()
        if self._span is not None:
            self._span.facts["outcome"] = str(outcome)
            self._span.end()

    def _call(self, last: ChatReply, outcome: str, seconds: float) -> Call:
        n_in, n_out = last.input_tokens, last.output_tokens
        is_estimated = not self._is_counted
        if is_estimated:
            n_in = self._n_asked() if n_in is None else n_in
            n_out = count_tokens("".join(self._texts)) if n_out is None else n_out
        if self._span is not None:
            self._span.facts.update(input_tokens=n_in, output_tokens=n_out)
        return Call(
            self.model, self.account, n_in, n_out, is_estimated, outcome,
            round(seconds * 1e3, 1), self._prompt(), self._hold,
        )  # fmt: skip

    @property
    def _is_counted(self) -> bool:
        if self._last is None or self.model.partition(":")[0] in UNBILLED:
            return True
        return self._last.input_tokens is not None and self._last.output_tokens is not None

    def _n_asked(self) -> int:
        return sum(count_tokens(message.content) for message in self.request.messages)

    def _prompt(self) -> str:
        digest = hashlib.sha256()
        for message in self.request.messages:
            text = f"{message.role}\0{message.content}\0"
            digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def _labels(self) -> dict[str, str]:
        provider, _, model = self.model.partition(":")
        return {"provider": provider, "model": model, "kind": self.account.kind or "other"}
