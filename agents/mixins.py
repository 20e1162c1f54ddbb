"""RAG mixin: retrieval, prompt enhancement and citation checks for any class."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar

from asgiref.sync import async_to_sync

from rag.core.access import Scope
from rag.services.answers import CitationManager, ContextBuilder, PromptEnhancer
from rag.services.search import SmartRetriever

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def _in_sync(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], T]:
    """Return the twin of an async method for callers without an event loop."""

    def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return async_to_sync(method)(self, *args, **kwargs)

    twin.__doc__ = method.__doc__
    return twin


class RAGMixin:
    """Adds retrieval with judgement to a class: list it among the bases and name its stores.

    The parts are made when first used, so that bases which do not call each other's ``__init__``
    do no harm; assign your own to replace one. ``smart_retriever`` None switches retrieval off.
    """

    rag_stores: Sequence[str] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    @cached_property
    def smart_retriever(self) -> SmartRetriever | None:
        """What finds results, in ``rag_stores`` unless the state names others."""
        return SmartRetriever(stores=self.rag_stores)

    @cached_property
    def context_builder(self) -> ContextBuilder:
        """What lays results out."""
        return ContextBuilder()

    @cached_property
    def prompt_enhancer(self) -> PromptEnhancer:
        """What puts a context before a prompt."""
        return PromptEnhancer()

    @cached_property
    def citation_manager(self) -> CitationManager:
        """What checks an answer against the results."""
        return CitationManager()

    async def retrieve_context(
        self,
        query: str,
        state: Mapping[str, Any],
        retrieval_mode: str = "auto",
        context_type: str = "standard",
    ) -> dict[str, Any]:
        """Return ``context`` (text), ``rag_results`` (JSON-safe dicts) and ``metadata``.

        ``state`` may hold ``stores`` or ``project_id``, and ``scope`` or ``user_id``: without
        these it is somebody unknown who asks. Without stores all is empty and
        ``metadata["notice"]`` says so.
        """
        # Also when nothing is looked for, an unknown type is an error and no surprise later.
        self.context_builder.build(query, [], context_type)
        if self.smart_retriever is None:
            metadata = {"mode": retrieval_mode, "total_found": 0, "notice": "Retrieval is off."}
            return {"context": "", "rag_results": [], "metadata": metadata}
        found = await self.smart_retriever.retrieve_for_agent(
            query=query, context=state, retrieval_mode=retrieval_mode
        )
        results = found["results"]
        context = self.context_builder.build(query, results, context_type)
        metadata = {
            **found["retrieval_metadata"],
            "context_type": context_type,
            "n_sources": len(context.passages),
            "is_cut": context.is_cut,
        }
        shown = [passage.hit.as_dict() for passage in context.passages]
        return {"context": context.text, "rag_results": shown, "metadata": metadata}

    retrieve_context_sync = _in_sync(retrieve_context)

    def enhance_prompt_with_rag(
        self, prompt: str, rag_context: str, enhancement_type: str = "standard"
    ) -> str:
        """Return the prompt with the context before it; without a context, the prompt alone."""
        return self.prompt_enhancer.enhance_prompt(
            original_prompt=prompt, rag_context=rag_context, enhancement_type=enhancement_type
        )

    def cite(
        self,
        text: str,
        rag_results: Sequence[Mapping[str, Any]],
        *,
        scope: Scope | None = None,
        question: str = "",
    ) -> dict[str, Any]:
        """Return ``text``, its ``citations`` with verdicts, and ``citation_count``.

        With a ``scope`` the results are read anew from the database, in the revision that they
        name and as far as the scope may; results that came back from a browser need that.
        ``question`` is what the text answers: what it repeats of that needs no source.
        """
        return self.citation_manager.add_citations(
            text, rag_results, scope=scope, question=question
        )
