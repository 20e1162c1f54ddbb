"""A title for a conversation, by the model. In: its first answer. Out: a better title, or none."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from agents import models
from agents.core.prompt_file import prompt_file
from agents.memory.subject import HAN, plain
from agents.services.apart import in_rows
from agents.services.chat_run import ChatRun
from agents.services.open_session import MAX_TITLE

TIMEOUT_S, SHOWN = 30.0, 1000
_RULE = models.Session.TitledBy.RULE
_AROUND = " #*_`\"'“”‘’「」《》。."
_LABEL = re.compile(r"^\s*(?:标题|题目|title)\s*[:：]\s*", re.I)


async def title_session(*, message: models.Message, run: ChatRun) -> None:
    """Give the session of a first answer a title, if the agent's config asks for it.

    Raises ProviderError when the model fails: the first question stays the title, as it does where
    a person has given one meanwhile.
    """
    if run.config.session_titles != "model" or not run.can_write:
        return
    talk = await in_rows(_first_talk, message)
    if talk is None:
        return
    question, answer = (escape(plain(text[:SHOWN])) for text in talk)
    data = f"<question>{question}</question>\n<answer>{answer}</answer>"
    prompt = prompt_file(f"title_{'zh' if HAN.search(question) else 'en'}")
    title = read_title(await run.told(prompt, data, max_tokens=256, timeout_s=TIMEOUT_S))
    if title:
        await in_rows(_write, message, title)


def read_title(answer: str) -> str:
    """Return the title of a model's answer, empty when it is none."""
    lines = [line for line in plain(answer).splitlines() if line.strip()]
    if len(lines) != 1:
        return ""
    bare = _LABEL.sub("", lines[0].strip(_AROUND))
    title = " ".join(bare.strip(_AROUND).split())
    return title if len(title) <= MAX_TITLE else ""


def _first_talk(message: models.Message) -> tuple[str, str] | None:
    row = models.Message.objects.filter(
        pk=message.pk, parent__parent=None, session__titled_by=_RULE
    ).select_related("parent").first()  # fmt: skip
    return (row.parent.content, row.content) if row and row.parent else None


def _write(message: models.Message, title: str) -> None:
    mine = models.Session.objects.filter(pk=message.session_id, titled_by=_RULE)
    mine.update(title=title, titled_by=models.Session.TitledBy.MODEL)
