"""Node protocol and registry of flows, and the context a node runs in. Knows no graph engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError, UnknownNameError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from agents.core.cited_answers import RunPassages
    from agents.core.source_configs import McpServerConfig
    from agents.core.spoken_text import SpokenText
    from rag.core.ports import ChatRequest
    from rag.core.sources import FetchRequest
    from rag.core.tools import ToolSpec
    from rag.core.types import ChatReply
    from rag.services.sources import SourceCall, SourceOutcome
    from rag.stages.citing.verify import VerifiedAnswer

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True)
class Pause:
    """What a node returns that waits for a person: a message and the decisions they have.

    ``values`` are those in the message: name, value, and by whom it was set; ``editable`` are
    those that whoever decides may change, as they are.
    """

    message: str
    decisions: tuple[str, ...]
    values: tuple[Mapping[str, Any], ...] = ()
    editable: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting(Pause):
    """A pause of a node inside of which somebody must decide: that is noted there."""

    message: str = ""
    decisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """What a flow that ran inside a node came to: its answer, and its variables."""

    answer: str
    variables: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceQueries:
    """Calls of data sources; ``ttls_s`` says for how many seconds a name's results may be kept."""

    calls: Sequence[SourceCall]
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    ttls_s: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileQuery:
    """A question to a store of files, or to files by their addresses, as a builder's node has it.

    ``node_id`` names a node that was saved, whose data count where ``data`` says nothing;
    ``context`` maps nodes to what they gave, for the templates.
    """

    data: Mapping[str, Any]
    context: Mapping[str, Any]
    node_id: str = ""
    timeout_s: float = 60


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request with its time; ``secret`` goes as a bearer token, or bare in ``secret_header``."""

    request: FetchRequest
    timeout_s: float
    secret: str = ""
    secret_header: str = ""


class NodeRun(Protocol):
    """Context of one visit to a node: models, sources, tools, events.

    ``decision`` is what a person decided here, None before, with a ``comment`` and the values that
    they ``edited``; ``prompts`` are the flow's texts;
    ``passages`` are what the run has found, by the numbers that its texts cite.
    """

    node: str
    scope: Scope
    deadline: Deadline
    prompts: Mapping[str, str]
    decision: str | None
    comment: str
    edited: Mapping[str, Any]
    passages: RunPassages

    def count_tokens(self, text: str) -> int:
        """Return the tokens of a text, as a chat model counts them."""

    async def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell whoever watches the run; ``data`` is JSON."""

    def model_id(self, name: str) -> str:
        """Return which model ``ask_model`` would ask: the configured one for an empty name."""

    async def takes_tools(self, name: str) -> bool:
        """Return whether the model that ``ask_model`` would ask takes the tools of a request."""

    async def ask_model(
        self, name: str, request: ChatRequest, spoken: SpokenText | None = None
    ) -> ChatReply:
        """Return the answer of ``provider:model`` (empty: the configured one), telling its pieces.

        ``spoken`` says which of them are for people (without it all are); its writer has taken in
        the answer then. Raises ProviderError and ProviderTimeoutError.
        """

    def keep_verdicts(self, answer: VerifiedAnswer) -> None:
        """Note what the sources say of this visit's text, as people are shown it."""

    async def ask_sources(self, asked: SourceQueries) -> list[SourceOutcome]:
        """Return one outcome per call, in their order; what failed is an outcome, too."""

    async def ask_files(self, asked: FileQuery) -> dict[str, Any]:
        """Return query, documents, answer, mode and perhaps citations; raise RAGError."""

    async def fetch(self, call: HttpCall) -> dict[str, Any]:
        """Return status, content_type and body (JSON, else text); raise ProviderError."""

    def inside(self) -> RunLog:
        """Return the log of what this node runs inside of it; nothing there is for people."""

    async def run_flow(
        self, name: str, message: str, given: Mapping[str, Any], state: Mapping[str, Any]
    ) -> FlowOutcome | None:
        """Return what another flow comes to, None while a person must decide in it."""

    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what each node has given so far, the latest last; see ``output_of``."""

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool's answer; raise UnknownNameError, InvalidInputError, ProviderError."""

    async def mcp_tools(self, server: McpServerConfig) -> Sequence[ToolSpec]:
        """Return what a server's tools are; raise ProviderError."""

    async def call_mcp(
        self, server: McpServerConfig, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the answer of a server's tool; raise InvalidInputError, ProviderError."""

    def tool_spec(self, name: str) -> ToolSpec:
        """Return what a model is told of a tool; raise UnknownNameError."""


class Node(Protocol):
    """A type of node. Made without arguments; its ``Config`` is what its YAML may say."""

    name: str
    label: Any
    Config: type[BaseModel]

    async def run(
        self, state: Mapping[str, Any], config: Any, run: NodeRun
    ) -> dict[str, Any] | Pause:
        """Return an update of the state; raise RAGError and nothing else."""


class RunLog(Protocol):
    """What a graph tells of one run, and what it knows of the run's past.

    A visit counts from 1: the second time that a cycle leads to a node is its visit 2.
    """

    def recorded(self, node: str, visit: int) -> Mapping[str, Any] | Pause | None:
        """Return the update of a visit that was finished before, or None.

        Of a past that is only looked at, a Pause where it ended.
        """

    def node_run(self, node: str, visit: int) -> NodeRun:
        """Return the context of a visit."""

    async def started(self, node: str, visit: int) -> None:
        """Note that a visit begins."""

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Note what came of a visit: from now on it is never repeated."""

    async def routed(
        self, node: str, visit: int, route: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]
    ) -> None:
        """Note where a run goes on; ``tests`` are the conditions with the values asked of."""

    async def paused(self, node: str, visit: int, pause: Pause) -> None:
        """Note that a person must decide."""

    async def failed(self, node: str, visit: int) -> None:
        """Note where a run broke off; the error itself is raised on."""


NODE_TYPES: dict[str, type[Node]] = {}


def register_node(node: C) -> C:
    """File a type of node under its name; raise ConfigurationError when the name is taken."""
    name = getattr(node, "name", "")
    for part in ("name", "label", "Config", "run"):
        if not hasattr(node, part):
            raise ConfigurationError(
                "The node type {place} has no “{part}”.", place=node.__qualname__, part=part
            )
    taken: type[Any] | None = NODE_TYPES.get(name)
    if taken and (taken.__module__, taken.__qualname__) != (node.__module__, node.__qualname__):
        raise ConfigurationError(
            "Two node types are called “{name}”: {first} and {second}.",
            hint="Rename one of them.",
            name=name,
            first=f"{taken.__module__}.{taken.__qualname__}",
            second=f"{node.__module__}.{node.__qualname__}",
        )
    NODE_TYPES[name] = node
    return node


def node_type(name: str) -> type[Node]:
    """Return the type of a name; raise UnknownNameError that lists the known ones."""
    if name not in NODE_TYPES:
        raise UnknownNameError("node type", name, NODE_TYPES)
    return NODE_TYPES[name]


def node_configs() -> dict[str, type[BaseModel]]:
    """Return the ``Config`` of each known type, as ``read_flow`` takes them."""
    return {name: node.Config for name, node in NODE_TYPES.items()}
