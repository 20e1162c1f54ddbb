"""The types of nodes that ship; importing this files them. Each is one module."""

from __future__ import annotations

from agents.flows.nodes import agent, data_query, human_review, rag, rag_files  # noqa: F401
