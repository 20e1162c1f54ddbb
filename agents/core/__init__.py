"""States and events of flows and agents. Knows no Django."""

from __future__ import annotations
