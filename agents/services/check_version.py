"""Whether a flow's version can be kept. In: its files, a note. Out: nothing, or what is wrong."""

from __future__ import annotations

from agents import models
from agents.flows.folder import FlowFiles, check_prompts
from rag.core.errors import InvalidInputError


def check_version(*, files: FlowFiles, note: str) -> None:
    """Raise InvalidInputError for a path, a text or a note that has no place in the database."""
    check_prompts(files.prompts)
    limit = models.FlowVersion._meta.get_field("note").max_length or 0
    if len(note) > limit:
        raise InvalidInputError(
            "The note has {n} characters.", hint="Allowed: {limit}.", n=len(note), limit=limit
        )
