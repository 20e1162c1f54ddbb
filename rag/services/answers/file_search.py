"""File search: a question to stores, local or at Gemini, or to files by their addresses.

Every door of it, HTTP, builder node and data source, asks by ``open_question``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.core.rag_node import MULTIMODAL
from rag.core.sources import AnswerRequest
from rag.services.answers.attached_files import prepare_files
from rag.services.answers.fetch import fetch_files
from rag.services.answers.gemini_answer import GeminiJob
from rag.services.answers.pipeline import AnswerJob, Prepare, run_job, store_job, stream_job
from rag.services.gemini import gemini_file_search
from rag.services.search import files_matching_metadata, retrieve
from rag.services.stores import find_stores
from rag.services.usage import check_budget
from rag.services.wiring.registry import chat_for
from rag.stages.citing.verify import Marks

KIND = models.UsageRecord.Kind.FILE_SEARCH
GEMINI = "gemini:"


def serialize_answer(answer: GroundedAnswer, mode: str) -> dict[str, Any]:
    """Return documents, citations (left out without any), and the answer itself as an extra.

    ``documents`` are the chunks that were used; the answer where there are none, and always for
    files sent along. A citation is told once, however many claims rest on it.
    """
    is_whole = mode == MULTIMODAL or not answer.documents
    wire: dict[str, Any] = {
        "documents": [answer.text] if is_whole else list(answer.documents),
        "answer": answer.text,
    }
    places = dict.fromkeys((one.source, one.chunk) for one in answer.groundings)
    if places:
        wire["citations"] = [{"source": source, "chunk": chunk} for source, chunk in places]
    if answer.groundedness.statements:
        wire["grounding"] = answer.groundedness.as_dict()
    if answer.notice:
        wire["notice"] = answer.notice
    return wire


@contextmanager
def open_question(
    *, asked: AnswerRequest, scope: Scope, deadline: Deadline, hosts: Sequence[str] = ()
) -> Iterator[Prepare]:
    """Give what prepares the answer; files sent along are on disk until the block ends.

    ``hosts`` are names of this very server, whose download addresses are ours. Raises what
    ``fetch_files`` raises; preparing raises NotFoundError for a store that ``scope`` may not read,
    InvalidInputError for stores that are kept in different places, and what the backend raises.
    """
    if not asked.files:
        question = GroundedQuestion(
            asked.text, asked.stores, top_k=asked.top_k, metadata_filter=asked.metadata_filter
        )
        yield partial(prepare_stores, question, scope, deadline)
        return
    with fetch_files(refs=asked.files, scope=scope, deadline=deadline, hosts=hosts) as files:
        yield partial(prepare_files, asked.text, files, scope, deadline)


def answer_grounded(
    *, asked: AnswerRequest, scope: Scope, deadline: Deadline, hosts: Sequence[str] = ()
) -> GroundedAnswer:
    """Return the whole answer; its tokens are recorded. Raises what ``open_question`` does."""
    with open_question(asked=asked, scope=scope, deadline=deadline, hosts=hosts) as prepare:
        return run_job(prepare).grounded()


async def stream_grounded(prepare: Prepare) -> AsyncIterator[GroundedAnswer]:
    """Yield an open question's answer as it comes, in the end one without text that has the rest.

    Leaving the iteration stops the model.
    """
    async with aclosing(stream_job(prepare)) as parts:
        async for job, part in parts:
            if part is None:
                yield replace(job.grounded(), text="")
            elif isinstance(part, str):
                yield GroundedAnswer(part)


def check_stores(*, names: Sequence[str], scope: Scope) -> None:
    """Raise what asking stores would before it asks: names, rights, a missing key, a budget."""
    if _stores(GroundedQuestion("?", names), scope)[0].is_remote:
        gemini_file_search()
    check_budget(key_id=scope.key_id)


def prepare_stores(
    question: GroundedQuestion, scope: Scope, deadline: Deadline, marks: Marks = "spans"
) -> AnswerJob:
    """Return the job of a question to stores: ours are searched now, Gemini's later.

    ``marks`` are those of an answer from Gemini.
    """
    deadline.check()
    stores = _stores(question, scope)
    if stores[0].is_remote:
        names = [store.resource_name for store in stores]
        model = question.model.removeprefix(GEMINI)
        return GeminiJob(
            question=replace(question, stores=names, model=model),
            backend=gemini_file_search(),
            kind=KIND,
            scope=scope,
            deadline=deadline,
            stores=stores,
            marks=marks,
        )
    chat = chat_for(scope=scope, kind="fileSearch", model=question.model, stores=stores)
    settings = stores[0].retrieval_settings
    if question.top_k is not None:
        settings = settings.but(top_k=min(question.top_k, 200))
    result = retrieve(
        query=question.text,
        scope=scope,
        stores=stores,
        settings=settings,
        purpose="answer",
        files=files_matching_metadata(text=question.metadata_filter, stores=stores),
    )
    deadline.check()
    return store_job(
        result=result,
        settings=settings,
        stores=stores,
        chat=chat,
        scope=scope,
        deadline=deadline,
        marks="spans",
    )


def _stores(question: GroundedQuestion, scope: Scope) -> Sequence[models.Store]:
    stores = find_stores(names=question.stores, scope=scope)
    if len({store.backend for store in stores}) > 1:
        raise InvalidInputError(
            "The stores are kept in different places and cannot be asked together.",
            hint="Ask those at Gemini by themselves.",
        )
    if stores[0].is_remote and question.model and not question.model.startswith(GEMINI):
        raise InvalidInputError(
            "Stores at Gemini are not answered by {model}.",
            hint="Name a model of Gemini, such as {example}.",
            model=question.model,
            example=f"{GEMINI}gemini-2.5-flash",
        )
    return stores
