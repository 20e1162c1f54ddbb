"""Caches: bytes by name for a while. What is lost, late or damaged is a miss, never an error."""

from __future__ import annotations
