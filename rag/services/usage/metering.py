"""Metered models and file search: reserve a key's budget before a call and record its usage."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from rag import models
from rag.conf import conf
from rag.core import metrics
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError, RAGError
from rag.core.file_search import GroundedAnswer
from rag.core.ports import ChatModel, ChatRequest, Embedder, Reranker, Tokenizer
from rag.core.request_context import UsageAccount, current_account
from rag.core.token_counter import counting_tokens
from rag.core.types import ChatReply
from rag.providers.postgres.db.connections import release_db
from rag.services.threads import run_db, run_thread_sensitive
from rag.services.tokens import count_tokens
from rag.services.usage.budgets import is_unbilled, reserve
from rag.services.usage.ledger import (
    ModelCall,
    deferred_usage,
    record_answer,
    record_call,
    record_or_defer,
    release_hold,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_OUTCOME = models.UsageRecord.Outcome


@dataclass(slots=True)
class ChatMeter:
    """Watches one call, from ``begin`` to ``end``."""

    model: str
    account: UsageAccount
    request: ChatRequest
    _hold: models.BudgetHold | None = None
    _span: metrics.Span | None = None
    _texts: list[str] = field(default_factory=list)
    _last: ChatReply | None = None
    _started: float = field(default_factory=time.perf_counter)

    def begin(self, *, is_free: bool = False) -> None:
        """Raise LimitError or ForbiddenError where the key's budget does not allow the call.

        ``is_free`` says that no budget can stand against it: the database is not asked.
        """
        if self.account.key_id is not None and not is_free:
            # What it is allowed depends on what those before it have used.
            if (waiting := deferred_usage()) is not None:
                waiting.write()
            self._hold = reserve(
                account=self.account,
                model=self.model,
                input_tokens=self._n_asked(),
                output_tokens=self.request.max_tokens,
                timeout_s=self.request.timeout_s,
            )
        self._span = metrics.start_span("model", model=self.model, kind=self.account.kind)

    def see(self, piece: ChatReply) -> None:
        """Take in a piece, or the whole answer."""
        if self._last is None:
            metrics.observe(
                "model_first_piece", time.perf_counter() - self._started, **self._labels()
            )
        self._texts.append(piece.text)
        if self._last is None or piece.input_tokens is not None or piece.output_tokens is not None:
            self._last = piece

    @property
    def ends_at_once(self) -> bool:
        """Return whether ``end`` asks neither the database nor a tokenizer."""
        return self._last is not None and deferred_usage() is not None and self._is_counted

    def end(self, error: BaseException | None = None) -> None:
        """Keep what was used; a call that failed before a piece came has used nothing."""
        outcome = _OUTCOME.OK if error is None else _OUTCOME.STOPPED
        if isinstance(error, Exception):
            outcome = _OUTCOME.FAILED
        seconds = time.perf_counter() - self._started
        metrics.observe("model_call", seconds, outcome=outcome, **self._labels())
        has_asked = not self.ends_at_once
        if self._last is None:
            release_hold(hold=self._hold)
        else:
            record_or_defer(self._call(self._last, outcome, seconds))
        if has_asked:
            # Whoever streams on, or lets this thread end, must not keep a connection.
            release_db()
        if self._span is not None:
            self._span.facts["outcome"] = str(outcome)
            self._span.end()

    def _call(self, last: ChatReply, outcome: str, seconds: float) -> ModelCall:
        n_in, n_out = last.input_tokens, last.output_tokens
        is_estimated = not self._is_counted
        if is_estimated:
            n_in = self._n_asked() if n_in is None else n_in
            n_out = count_tokens("".join(self._texts)) if n_out is None else n_out
        if self._span is not None:
            self._span.facts.update(input_tokens=n_in, output_tokens=n_out)
        return ModelCall(
            self.model,
            self.account,
            n_in,
            n_out,
            is_estimated,
            outcome,
            round(seconds * 1e3, 1),
            self._prompt(),
            self._hold,
        )

    @property
    def _is_counted(self) -> bool:
        if self._last is None or is_unbilled(self.model):
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


@contextmanager
def metered_call(
    *, model: str, kind: str, texts: Sequence[str], account: UsageAccount | None = None
) -> Iterator[None]:
    """Ask the key's budget, let the call be made inside, and keep the tokens that it took.

    They are what the service tells, else our own count. Raises LimitError and ForbiddenError
    before the call. A call that fails takes nothing.
    """
    account, started = account or current_account(), time.perf_counter()
    provider, _, name = model.partition(":")
    labels = {"provider": provider, "model": name, "kind": kind}
    hold: models.BudgetHold | None = None
    if account.key_id is not None:
        hold = reserve(
            account=account,
            model=model,
            input_tokens=_count(texts),
            output_tokens=0,
            timeout_s=conf().timeout_s,
        )
    with (
        metrics.span("model", model=model, kind=kind, n_texts=len(texts)),
        counting_tokens() as tally,
    ):
        try:
            yield
        except BaseException:
            # A stop gives back what it held, too.
            metrics.observe("model_call", time.perf_counter() - started, outcome="failed", **labels)
            release_hold(hold=hold)
            release_db()
            raise
    seconds = time.perf_counter() - started
    metrics.observe("model_call", seconds, outcome="ok", **labels)
    tokens = tally.tokens
    call = ModelCall(
        model,
        account,
        _count(texts) if tokens is None else tokens,
        0,
        tokens is None,
        duration_ms=round(seconds * 1e3, 1),
        hold=hold,
    )
    record_call(call=call, kind=kind)
    # The thread may be one that ends now, or go on to wait for another service.
    release_db()


def _count(texts: Sequence[str]) -> int:
    return sum(count_tokens(text) for text in texts)


# Longer than any answer that somebody reads; a model that never ends is cut there.
MAX_ANSWER_CHARS = 200_000


def _within_limit(request: ChatRequest) -> ChatRequest:
    return replace(request, timeout_s=min(request.timeout_s, conf().timeout_s))


async def _in_time(
    pieces: AsyncIterator[ChatReply], model: str, timeout_s: float
) -> AsyncGenerator[ChatReply, None]:
    """Yield the pieces; raise ProviderTimeoutError when waiting for them took longer in all.

    How long the reader takes between them does not count.
    """
    left_s = timeout_s
    while True:
        began = time.monotonic()
        try:
            async with asyncio.timeout(left_s) as limit:
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if not limit.expired():
                raise
            raise ProviderTimeoutError(
                "The model {model} did not end its answer within {seconds} s.",
                hint="Try again, or raise RAG_TIMEOUT_S.",
                model=model,
                seconds=f"{timeout_s:.3g}",
            ) from None
        left_s -= time.monotonic() - began
        yield piece


class MeteredChat:
    """The ChatModel port on another one. ``account`` None is that of whoever calls.

    RAG_TIMEOUT_S bounds each answer as a whole, however it comes. One is cut at MAX_ANSWER_CHARS
    and ends with finish_reason length then.
    """

    def __init__(self, model: ChatModel, account: UsageAccount | None = None) -> None:
        self.id = model.id
        self.has_tools: bool = getattr(model, "has_tools", False)
        self.model = model
        self._account = account

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the answer; raise LimitError where the key's budget is used up."""
        request = _within_limit(request)
        meter = ChatMeter(self.id, self._payer(), request)
        meter.begin()
        try:
            reply = _cut(self.model.generate(request), MAX_ANSWER_CHARS)
        except BaseException as error:
            meter.end(error)
            raise
        meter.see(reply)
        meter.end()
        return reply

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield the pieces; what was written until somebody leaves is in the ledger, too."""
        # The account is that of the caller; the pieces may be asked for elsewhere.
        return self._stream(_within_limit(request), self._payer())

    async def _stream(self, request: ChatRequest, payer: UsageAccount) -> AsyncIterator[ChatReply]:
        meter = ChatMeter(self.id, payer, request)
        # An answer that outlives its request cannot use the request's thread.
        run = run_db if payer.is_apart else run_thread_sensitive
        if payer.is_free:
            meter.begin(is_free=True)
        else:
            await run(meter.begin)
        error: BaseException | None = None
        left = MAX_ANSWER_CHARS
        try:
            pieces: Any = self.model.stream(request)
            in_time = _in_time(pieces, self.id, request.timeout_s)
            async with aclosing(pieces), aclosing(in_time):
                async for whole in in_time:
                    piece = _cut(whole, left)
                    left -= len(piece.text)
                    meter.see(piece)
                    yield piece
                    if piece is not whole:
                        break
        except BaseException as raised:
            # Who leaves pays for what was written until then.
            error = raised
            raise
        finally:
            if meter.ends_at_once:
                meter.end(error)
            else:
                await run(lambda: meter.end(error))

    def _payer(self) -> UsageAccount:
        return self._account or current_account()


def _cut(reply: ChatReply, limit: int) -> ChatReply:
    if len(reply.text) <= limit:
        return reply
    return replace(reply, text=reply.text[:limit], finish_reason="length")


class MeteredEmbedder:
    """The Embedder port on a remote one. ``account`` None is that of whoever calls."""

    def __init__(self, model: Embedder, account: UsageAccount | None = None) -> None:
        self.model, self._account = model, account
        self.id, self.version = model.id, model.version
        self.dim, self.max_tokens = model.dim, model.max_tokens

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the model's own tokenizer, or its estimate."""
        return self.model.tokenizer

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim] for texts to be found."""
        with metered_call(model=self.id, kind="embedding", texts=texts, account=self._account):
            return self.model.embed_passages(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim] for a question."""
        with metered_call(model=self.id, kind="query", texts=[text], account=self._account):
            return self.model.embed_query(text)


class MeteredReranker:
    """The Reranker port on a remote one."""

    def __init__(self, model: Reranker) -> None:
        self.id, self.model = model.id, model

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return 0 to 1 for each text, in their order; raise ProviderError."""
        with metered_call(model=self.id, kind="rerank", texts=[query, *texts]):
            return self.model.rerank(query, texts, timeout_s=timeout_s)


# Gemini's file search reads documents that nobody here has counted: a guess on the high side.
INPUT_TOKENS, OUTPUT_TOKENS = 10_000, 2_000


def reserve_answer(
    *, scope: Scope, deadline: Deadline, model: str = ""
) -> models.BudgetHold | None:
    """Return what holds an answer of a model of Gemini; raise what ``reserve`` raises."""
    return reserve(
        account=current_account().of(scope),
        model=f"gemini:{model or conf().gemini_model}",
        input_tokens=INPUT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        timeout_s=deadline.timeout_s,
    )


@contextmanager
def reserved_answer(
    *, scope: Scope, deadline: Deadline, model: str = ""
) -> Iterator[models.BudgetHold | None]:
    """Reserve an answer while it is made; one that fails gives back what was reserved."""
    hold = reserve_answer(scope=scope, deadline=deadline, model=model)
    try:
        yield hold
    except BaseException:
        # A stop gives back what it held, too.
        release_hold(hold=hold)
        raise


OUTCOME = models.UsageRecord.Outcome


async def metered_stream(
    *,
    pieces: AsyncIterator[GroundedAnswer],
    kind: str,
    scope: Scope,
    deadline: Deadline,
    store: models.Store | None = None,
    model: str = "",
) -> AsyncGenerator[GroundedAnswer, None]:
    """Yield the pieces; what was used until they end, or somebody leaves, is kept.

    Raises what ``reserve`` raises before the first is asked for; what ends without a piece has used
    nothing.
    """
    hold = await sync_to_async(reserve_answer)(scope=scope, deadline=deadline, model=model)
    last: GroundedAnswer | None = None
    # Who leaves does not say so.
    outcome = OUTCOME.STOPPED

    def keep() -> None:
        if last is None:
            release_hold(hold=hold)
        else:
            record_answer(
                answer=last, kind=kind, scope=scope, store=store, hold=hold, outcome=outcome
            )
        release_db()

    try:
        async with aclosing(pieces):  # type: ignore[type-var]
            async for piece in pieces:
                last = piece
                yield piece
        outcome = OUTCOME.OK
    except RAGError:
        outcome = OUTCOME.FAILED
        raise
    finally:
        await sync_to_async(keep)()
