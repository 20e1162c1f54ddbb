"""Pipeline extensions: functions that plugins register to lengthen an agent's pipeline."""

from __future__ import annotations

from collections.abc import Callable

from agents.core.pipeline import Pipeline
from rag.core.errors import UnknownNameError

Extension = Callable[[Pipeline], Pipeline]
KINDS = ("rag", "react", "supervisor")
_EXTENSIONS: dict[str, list[Extension]] = {}


def extend_pipeline(kind: str) -> Callable[[Extension], Extension]:
    """Return a decorator: what it marks is given the pipeline of ``kind`` and returns a longer one.

    ``kind`` is rag, react or supervisor; UnknownNameError for another. It holds for pipelines made
    from then on: the module of a plugin is imported before the first.
    """
    if kind not in KINDS:
        raise UnknownNameError("type of agent", kind, KINDS)

    def add(extension: Extension) -> Extension:
        _EXTENSIONS.setdefault(kind, []).append(extension)
        return extension

    return add


def with_extensions(kind: str, pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with all that was added to its kind; raise what an extension raises."""
    for extension in _EXTENSIONS.get(kind, ()):
        pipeline = extension(pipeline)
    return pipeline


def remove_extension(kind: str, extension: Extension) -> None:
    """Take an extension back, for pipelines made from then on."""
    _EXTENSIONS.get(kind, []).remove(extension)
