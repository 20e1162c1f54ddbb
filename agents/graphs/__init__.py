"""Graphs: the only place that knows LangGraph."""

from __future__ import annotations
