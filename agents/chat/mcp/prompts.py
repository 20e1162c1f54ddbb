"""MCP prompts: what people ask of a knowledge base, worded for the model that has its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_noop

from rag.core.errors import InvalidInputError, UnknownNameError


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """A blank of a prompt."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A prompt with blanks, all of which are needed; texts are translated where they are told."""

    name: str
    title: str
    text: str
    arguments: tuple[PromptArgument, ...]


_DOCUMENT = PromptArgument("document", gettext_noop("The document, as search names it."))
_QUESTION = PromptArgument("question", gettext_noop("The question."))
PROMPTS = {
    one.name: one
    for one in (
        McpPrompt(
            "answer_from_documents",
            gettext_noop("Answer from the documents"),
            gettext_noop(
                "Search the documents for what answers this question, read on where a passage is "
                "not enough, and answer with the name and page of the document behind each "
                "sentence. Say so where the documents do not say it. The question: {question}"
            ),
            (_QUESTION,),
        ),
        McpPrompt(
            "summarize_document",
            gettext_noop("Summarize a document"),
            gettext_noop(
                "Read the document {document} by fetch_document to its end and summarize it: what "
                "it is about, what it lays down, numbers and dates, each with its section."
            ),
            (_DOCUMENT,),
        ),
        McpPrompt(
            "check_statement",
            gettext_noop("Check a statement"),
            gettext_noop(
                "Search the documents for what speaks for and against this statement, quote both "
                "word by word, and say whether it holds. The statement: {statement}"
            ),
            (PromptArgument("statement", gettext_noop("What shall be checked.")),),
        ),
    )
}
MAX_ARGUMENT = 8000


def fill_mcp_prompt(*, name: str, arguments: Mapping[str, str]) -> str:
    """Return a prompt's text with its blanks filled, in the current language.

    Raises UnknownNameError for a prompt that is none, InvalidInputError for a wrong value.
    """
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise UnknownNameError("prompt", name[:100], PROMPTS)
    values = {one.name: str(arguments.get(one.name) or "").strip() for one in prompt.arguments}
    for blank, value in values.items():
        if not value or len(value) > MAX_ARGUMENT:
            raise InvalidInputError(
                "{name} must have 1 to {limit} characters.", name=blank, limit=MAX_ARGUMENT
            )
    return gettext(prompt.text).format(**values)
