"""Keeps the summary of a conversation. In: an answer that is done. Out: its session's summary."""

from __future__ import annotations

from agents import models
from agents.core.prompt_file import prompt_file
from agents.memory.session import Budget, roll_summary
from agents.services.apart import in_rows
from agents.services.chat_run import ChatRun
from agents.services.history import Said, branch_of


async def summarize(*, message: models.Message, run: ChatRun) -> None:
    """Write a summary of all turns that no longer fit into what the model is shown.

    It stands with the last turn that it covers, so that branches keep apart.
    """
    limit = 2 * run.config.history_turns
    is_all_shown = run.n_before is not None and run.n_before + 2 <= limit
    if not run.config.summary_tokens or is_all_shown:
        return
    said = await in_rows(branch_of, message=message)
    fallen = said[:-limit] if limit else said
    if not fallen or fallen[-1].summary:
        return
    known = max((n for n, one in enumerate(fallen) if one.summary), default=-1)
    before = fallen[known].summary if known >= 0 else ""
    text = await roll_summary(
        before, [one.turn for one in fallen[known + 1 :]],
        Budget(run.config.summary_tokens, run.count_tokens),
        (prompt_file("summary_zh"), prompt_file("summary_en")),
        run.told if run.can_write else None,
    )  # fmt: skip
    await in_rows(_write, fallen[-1], text)


def _write(said: Said, text: str) -> None:
    models.Message.objects.filter(pk=said.message_id).update(summary=text)
