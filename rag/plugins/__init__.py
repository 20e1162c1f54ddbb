"""Data sources and prompt enhancers: plain classes, registered under a name when imported."""

from __future__ import annotations
