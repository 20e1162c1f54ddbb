"""Use cases, keyword-only."""

from __future__ import annotations
