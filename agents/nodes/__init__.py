"""The types of nodes that ship; importing this files them. Each is one module."""

from __future__ import annotations

from agents.nodes import agent as agent
from agents.nodes import data_query as data_query
from agents.nodes import human_review as human_review
from agents.nodes import rag as rag
from agents.nodes import rag_files as rag_files
