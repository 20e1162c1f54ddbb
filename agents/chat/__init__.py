"""Agents: conversations, their pipelines and the protocols they are asked over."""

from __future__ import annotations
