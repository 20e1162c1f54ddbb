"""Core values and protocols of flows and agents. Knows no Django."""

from __future__ import annotations
