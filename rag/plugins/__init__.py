"""Data sources and prompt enhancers: plain classes, filed under a name when imported."""

from __future__ import annotations
