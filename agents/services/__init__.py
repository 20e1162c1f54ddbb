"""Use cases of flows."""

from __future__ import annotations
