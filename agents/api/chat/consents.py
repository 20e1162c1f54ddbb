"""Consents by django-ninja: what an agent or flow would send where, and to let it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import ConfigDict, Field

from agents import models
from agents.chat.agents.agent import find_agent
from agents.chat.agents.agent_exposure import agent_exposure
from agents.flows.runs.flow_exposure import flow_exposure
from agents.flows.versions.load import compiled_graph
from agents.flows.versions.versions import active_version, find_flow
from agents.runtime.outbound import Exposure, grant_consent, withdraw_consent
from rag.api.http.authentication import require_caller
from rag.api.http.schemas import PROBLEMS, Problem
from rag.core.access import Scope

router = Router(tags=["agents"])
Kind = Literal["agents", "flows"]
_Host = Annotated[str, Field(min_length=1, max_length=300)]
_PROBLEMS = {**PROBLEMS, 409: Problem}


class ConsentState(Schema):
    """What may be sent where. `stores` are those that an author may not read; without any nothing
    is asked. `hosts`: `*` is any, `plugin:NAME` what that plugin calls, `reviewers` are people."""

    name: str
    hosts: list[str]
    stores: list[str]
    is_granted: bool


class ConsentBody(Schema):
    """Consent to these hosts, as they were told."""

    model_config = ConfigDict(extra="forbid", strict=True)

    hosts: list[_Host] = Field(min_length=1, max_length=100)


@router.get("/{kind}/{name}", response={200: ConsentState, **PROBLEMS}, summary="Who is told what?")
def read_consent(request: HttpRequest, kind: Kind, name: str) -> ConsentState:
    """Return what asking this agent, or running this flow, could tell whom."""
    scope = require_caller(request, "read").scope
    return _state(*_subject(kind, name, scope))


@router.post("/{kind}/{name}", response={200: ConsentState, **_PROBLEMS}, summary="Consent")
def give_consent(request: HttpRequest, kind: Kind, name: str, body: ConsentBody) -> ConsentState:
    """Let it send what one may read oneself to these hosts, for one's own questions."""
    scope = require_caller(request, "read").scope
    subject, exposure = _subject(kind, name, scope)
    grant_consent(subject=subject, exposure=exposure, hosts=body.hosts, scope=scope)
    return _state(*_subject(kind, name, scope))


@router.delete("/{kind}/{name}", response={204: None, **PROBLEMS}, summary="Withdraw consent")
def drop_consent(request: HttpRequest, kind: Kind, name: str) -> Any:
    """Forget one's consent."""
    scope = require_caller(request, "read").scope
    withdraw_consent(subject=_subject(kind, name, scope)[0], scope=scope)
    return 204, None


def _subject(kind: str, name: str, scope: Scope) -> tuple[models.Agent | models.Flow, Exposure]:
    if kind == "agents":
        agent = find_agent(name=name, scope=scope)
        return agent, agent_exposure(agent=agent, scope=scope)
    flow = find_flow(name=name, scope=scope)
    definition = compiled_graph(version=active_version(flow=flow)).flow
    return flow, flow_exposure(flow=flow, definition=definition, scope=scope)


def _state(subject: models.Agent | models.Flow, exposure: Exposure) -> ConsentState:
    stores = [store.slug for store in exposure.stores]
    return ConsentState(
        name=subject.name,
        hosts=sorted(exposure.hosts),
        stores=stores,
        is_granted=exposure.is_granted,
    )
