"""Built-in tools: functions that models call, each with the rights of the person it acts for."""

from __future__ import annotations

from agents.tools import grade, memory_retrieve, query_rewrite, rerank, vector_retrieve
