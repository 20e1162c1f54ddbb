"""Flows: YAML graphs, from their definition and versions to nodes, engine and runs."""

from __future__ import annotations
