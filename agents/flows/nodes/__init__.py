"""Built-in node types; importing this registers them. Each is one module."""

from __future__ import annotations

from agents.flows.nodes import agent, data_query, human_review, rag, rag_files
