"""What runs a pipeline, by the setting AGENT_ENGINE. In: a pipeline. Out: an engine."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Protocol

from django.conf import settings

from agents.core.extend_pipeline import extended
from agents.core.pipeline import Pipeline, PipelineRun, PipelineState
from agents.graphs.plain import PlainEngine
from rag.core.errors import UnknownNameError
from rag.services.count_tokens import count_tokens

ENGINES = ("langgraph", "plain")
# Whatever a library raises that cannot be loaded, or does not fit what it is built with.
_UNFIT = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError,
    NameError, OSError, RuntimeError, SyntaxError, SystemError, TypeError, ValueError,
)  # fmt: skip
log = logging.getLogger(__name__)


class Engine(Protocol):
    """Runs a pipeline; made once, for any number of runs."""

    name: str
    pipeline: Pipeline

    async def run(self, state: PipelineState, run: PipelineRun) -> PipelineState:
        """Return the state at the end; raise what a step without a fallback raises."""
        ...


def engine_for(pipeline: Pipeline, name: str = "") -> Engine:
    """Return the engine of a name, empty for the setting; UnknownNameError for another.

    A graph engine that cannot be loaded, or cannot compile the pipeline, is replaced by the plain
    one, which the log says; what a step of a run raises is none of this.
    """
    name = name or str(settings.AGENTS["ENGINE"])
    if name not in ENGINES:
        raise UnknownNameError("agent engine", name, ENGINES)
    return PlainEngine(pipeline) if name == "plain" else _graph_engine(pipeline)


def _graph_engine(pipeline: Pipeline) -> Engine:
    try:
        # Heavy: 0.9 s and 71 MB, only where an agent is asked.
        from agents.graphs.rag import GraphEngine

        return GraphEngine(pipeline)
    except _UNFIT:
        log.exception("agents run on the plain engine, LangGraph cannot be used")
        return PlainEngine(pipeline)


@lru_cache(maxsize=8)
def agent_engine(kind: str, name: str) -> Engine:
    """Return the engine of a type of agents, made once a process, with what plugins added."""
    # Its steps count tokens on the event loop, which would wait a second for the vocabulary.
    count_tokens("")
    return engine_for(extended(kind, _pipeline(kind)), name)


def _pipeline(kind: str) -> Pipeline:
    # Steps are needed only where an agent is asked.
    from agents.nodes.pipeline import rag_pipeline

    # Likewise.
    from agents.nodes.react_pipeline import react_pipeline

    # Likewise.
    from agents.nodes.supervisor_pipeline import supervisor_pipeline

    made = {"rag": rag_pipeline, "react": react_pipeline, "supervisor": supervisor_pipeline}
    if kind not in made:
        raise UnknownNameError("type of agent", kind, made)
    return made[kind]()
