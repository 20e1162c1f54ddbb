"""Models that keep the ledger by themselves. In: a model behind a port. Out: the same, metered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from rag.core.account import Account, current_account
from rag.core.ports import ChatModel, ChatRequest, Embedder, Reranker, Tokenizer
from rag.core.types import ChatReply
from rag.services.usage_meter import ChatMeter
from rag.services.usage_service import metered_service

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# For answers that outlive their request.
_THREADS = ThreadPoolExecutor(2, "ledger")


class MeteredChat:
    """The ChatModel port on another one. ``account`` None is that of whoever calls."""

    def __init__(self, model: ChatModel, account: Account | None = None) -> None:
        self.id = model.id
        self.has_tools: bool = getattr(model, "has_tools", False)
        self.model = model
        self._account = account

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return the answer; raise LimitError where the key's budget is used up."""
        meter = ChatMeter(self.id, self._payer(), request)
        meter.begin()
        try:
            reply = self.model.generate(request)
        except BaseException as error:
            meter.end(error)
            raise
        meter.see(reply)
        meter.end()
        return reply

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield the pieces; what was written until somebody leaves is in the ledger, too."""
        # The account is that of the caller; the pieces may be asked for elsewhere.
        return self._stream(request, self._payer())

    async def _stream(self, request: ChatRequest, payer: Account) -> AsyncIterator[ChatReply]:
        meter = ChatMeter(self.id, payer, request)
        if payer.is_free:
            meter.begin(is_free=True)
        else:
            await _row_work(meter.begin, payer)
        error: BaseException | None = None
        try:
            pieces: Any = self.model.stream(request)
            async with aclosing(pieces):
                async for piece in pieces:
                    meter.see(piece)
                    yield piece
        except BaseException as raised:
            # Who leaves pays for what was written until then.
            error = raised
            raise
        finally:
            if meter.ends_at_once:
                meter.end(error)
            else:
                await _row_work(lambda: meter.end(error), payer)

    def _payer(self) -> Account:
        return self._account or current_account()


class MeteredEmbedder:
    """The Embedder port on a remote one. ``account`` None is that of whoever calls."""

    def __init__(self, model: Embedder, account: Account | None = None) -> None:
        self.model, self._account = model, account
        self.id, self.version = model.id, model.version
        self.dim, self.max_tokens = model.dim, model.max_tokens

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the model's own tokenizer, or its estimate."""
        return self.model.tokenizer

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim] for texts to be found."""
        with metered_service(model=self.id, kind="embedding", texts=texts, account=self._account):
            return self.model.embed_passages(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim] for a question."""
        with metered_service(model=self.id, kind="query", texts=[text], account=self._account):
            return self.model.embed_query(text)


class MeteredReranker:
    """The Reranker port on a remote one."""

    def __init__(self, model: Reranker) -> None:
        self.id, self.model = model.id, model

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return 0 to 1 for each text, in their order; raise ProviderError."""
        with metered_service(model=self.id, kind="rerank", texts=[query, *texts]):
            return self.model.rerank(query, texts, timeout_s=timeout_s)


async def _row_work(work: Callable[[], None], payer: Account) -> None:
    if payer.is_apart:
        await sync_to_async(work, thread_sensitive=False, executor=_THREADS)()
    else:
        await sync_to_async(work)()
