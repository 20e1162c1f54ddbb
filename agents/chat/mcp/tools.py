"""MCP tools: ask an agent, search, list stores, fetch a document; with those of plugins, called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from django.db.models import Count
from django.utils.translation import gettext_noop

from agents.chat.agents.agent import find_agent
from agents.chat.agents.tools import offered_tool_spec
from agents.chat.answers.control import start_answer, subscribe
from agents.chat.answers.create import MessageRequest
from agents.chat.openai.answer import OpenAIAnswer
from agents.runtime.event_errors import error_from_event
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.hits import Hit
from rag.core.options import option, read_options
from rag.core.plugins import PLUGINS
from rag.core.request_context import use_account
from rag.core.tools import Tool, ToolCall, ToolSpec, call_tool, spec_of
from rag.services.files import MAX_CHARACTERS, document_text
from rag.services.plugins import list_plugins
from rag.services.search import retrieve
from rag.services.sources import SourceContext
from rag.services.stores import find_stores, readable_stores
from rag.services.threads import run_until
from rag.stages.prompting.abstention import doubt_notice


class AskTool:
    """The tool ``ask`` as it is described; ``ask_agent`` runs it, since answers come slowly."""

    name = "ask"
    label = gettext_noop("Ask an agent")
    description = (
        "Asks an agent that searches the documents itself and answers in words, with citations "
        "that were checked. To ask on, send the session of the answer along."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """The question, and who shall answer it."""

        question: str = option(help="The question.")
        agent: str = option("rag", help="The agent's name.")
        stores: list[str] = option([], help="Where it looks; empty: wherever it may.")
        session: str = option("", help="The session of an earlier answer, to go on.")


async def ask_agent(*, arguments: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return ``answer`` with footnotes, ``citations``, ``outcome``, ``grounding``, ``session``.

    ``notices`` are for the reader, such as that no document mentions a code of the question.

    Who cancels stops the answer, unless ``AGENT_FINISHES_ALONE`` is set. Raises RAGError.
    """
    started = await start_answer(order=partial(_order, arguments, scope))
    answer = OpenAIAnswer(has_footnotes=True, holds=True)
    async with aclosing(subscribe(message_id=started.answer.pk)) as events:
        async for event in events:
            answer.take(event)
    if answer.error is not None:
        raise error_from_event(answer.error)
    answer.finish()
    about = answer.about(())
    kept = ("outcome", "confidence", "grounding", "session", "message", "sources", "notices")
    return {
        "answer": answer.shown,
        "citations": answer.citations,
        **{name: about[name] for name in kept},
    }


def _order(arguments: Mapping[str, Any], scope: Scope) -> MessageRequest:
    asked = read_options(AskTool.Options, arguments, of=AskTool.name)
    return MessageRequest(
        agent=find_agent(name=asked.agent, scope=scope),
        scope=scope,
        message=asked.question,
        session=asked.session,
        stores=asked.stores,
    )


class SearchTool:
    """``rag.core.tools.Tool``: passages, by the stores' own settings."""

    name = "search"
    label = gettext_noop("Search documents")
    description = (
        "Finds the passages of documents that fit a question best, by meaning and by words, each "
        "with its document, page and score. Ask a whole question. To read on around a passage, "
        "call fetch_document with its document and char_start."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What to look for, and where."""

        query: str = option(help="A question or words, understandable by itself.")
        stores: list[str] = option([], help="Stores by name; empty: all that may be read.")
        top_k: int | None = option(
            None, help="How many passages; unset: by the question.", minimum=1, maximum=50
        )
        mode: Literal["auto", "semantic", "keyword", "hybrid"] = option(
            "auto", help="By meaning (semantic), by words (keyword) or both."
        )

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``results``, best first, and ``mode``, as it was searched.

        A ``notice`` says that they may not hold the answer, and what of it no document mentions.
        """
        asked, scope = call.arguments, call.scope
        if asked.stores:
            stores = find_stores(names=asked.stores, scope=scope)
        else:
            stores = readable_stores(scope=scope)
        if not stores:
            raise InvalidInputError("No store was chosen.", hint="Name at least one.")
        settings = stores[0].retrieval_settings
        settings = settings.but(top_k=asked.top_k) if asked.top_k else settings
        found = retrieve(
            query=asked.query, scope=scope, stores=stores, settings=settings.in_mode(asked.mode)
        )
        call.deadline.check()
        slugs = {store.pk: store.slug for store in stores}
        results = [_serialize_hit(hit, slugs.get(hit.store_id or 0, "")) for hit in found.hits]
        told = {"results": results, "mode": found.metadata["mode"]}
        notice = doubt_notice(asked.query, found.answerability)
        return {**told, "notice": notice} if notice else told


def _serialize_hit(hit: Hit, store: str) -> dict[str, Any]:
    return {
        "document": hit.document_id,
        "file": hit.file_name,
        "store": store,
        "page": hit.page,
        "heading": " › ".join(hit.heading_path),
        "content": hit.text,
        "score": hit.score,
        "chunk_id": hit.chunk_id,
        "char_start": hit.char_start,
        "char_end": hit.char_end,
        "content_type": hit.content_type,
    }


MAX_STORES = 200


class ListStoresTool:
    """``rag.core.tools.Tool``: what there is to search."""

    name = "list_stores"
    label = gettext_noop("List the stores")
    description = (
        "Lists the stores of documents that you may search, with what each is called and how many "
        "files it has. Call it first when you do not know where to look."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Nothing."""

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``stores``: name to use, title, number of files that can be found."""
        found = readable_stores(scope=call.scope, limit=MAX_STORES)
        n_files = _n_files(found, call.scope)
        stores = [
            {
                "store": store.slug,
                "title": store.display_name or store.name,
                "files": n_files.get(store.pk, 0),
            }
            for store in found
        ]
        return {"stores": stores}


class FetchDocumentTool:
    """``rag.core.tools.Tool``: a document's text, piece by piece."""

    name = "fetch_document"
    label = gettext_noop("Read a document")
    description = (
        "Returns the text of a document that search has found, up to 100000 characters at once. "
        "next_start tells where to go on; null means that this was the end."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which document, from where on."""

        document: str = option(help="The document, as search names it.")
        start: int = option(0, help="The first character.", minimum=0, maximum=2**31 - 2)
        limit: int = option(20_000, help="How many.", minimum=1, maximum=MAX_CHARACTERS)

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return what ``document_text`` returns."""
        asked = call.arguments
        return document_text(
            document=asked.document, scope=call.scope, start=asked.start, limit=asked.limit
        )


def _n_files(stores: Sequence[Any], scope: Scope) -> dict[int, int]:
    """Return by store how many of its files can be found, counted at once."""
    if not stores:
        return {}
    files = stores[0].files.model.objects.readable(scope)
    counted = files.filter(store__in=stores, n_chunks__gt=0).order_by().values_list("store_id")
    return dict(counted.annotate(n=Count("pk")))


CALL_S = 60.0
_OWN: dict[str, type[Any]] = {
    tool.name: tool for tool in (SearchTool, AskTool, ListStoresTool, FetchDocumentTool)
}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool, and as clients see it."""

    tool: type[Any]
    spec: ToolSpec


def offered_tools() -> dict[str, OfferedTool]:
    """Return the tools by name: ours, then those of agents; what plugins add is among these.

    What a tool of agents lists as ``house_arguments`` is not for a caller to choose.
    """
    found = {name: OfferedTool(tool, spec_of(tool)) for name, tool in _OWN.items()}
    for info in list_plugins(kind="tool").plugins:
        spec = offered_tool_spec(name=info.name)
        found.setdefault(info.name, OfferedTool(PLUGINS.get("tool", info.name), spec))
    return found


async def run_tool(*, name: str, arguments: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return a tool's answer within a minute; ``ask`` takes as long as its agent may.

    Holds no database connection while it waits. Raises UnknownNameError for a tool that is none,
    InvalidInputError for arguments that do not fit, and what the tool raises.
    """
    if name == AskTool.name:
        return await ask_agent(arguments=arguments, scope=scope)
    found = offered_tools()
    if name not in found:
        raise UnknownNameError("tool", name[:100], found)
    shown = found[name].spec.parameters["properties"]
    for key in arguments:
        if key not in shown:
            raise UnknownNameError("option", f"{name}.{key}", shown)
    deadline = Deadline(CALL_S)
    work = partial(_paid, found[name].tool(), arguments, scope, deadline)
    return (await run_until(work, name=name, deadline=deadline)).result()


def _paid(
    tool: Tool, arguments: Mapping[str, Any], scope: Scope, deadline: Deadline
) -> dict[str, Any]:
    with use_account(scope):
        return call_tool(tool, arguments, scope=scope, deadline=deadline, ports=SourceContext())
