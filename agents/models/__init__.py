"""Facts about agents, conversations, flows and their runs: tables, constraints, querysets."""

from __future__ import annotations

from agents.models.agent import Agent
from agents.models.conversation import Message, MessageEvent, Session
from agents.models.flow import Flow, FlowVersion
from agents.models.memory import Memory, MemoryChoice
from agents.models.outbound_grant import OutboundGrant
from agents.models.run import FlowRun, RunEvent
from agents.models.trace import TraceStep
from agents.models.widget import Widget
