"""Agents and flows on top of the knowledge base."""

from __future__ import annotations
