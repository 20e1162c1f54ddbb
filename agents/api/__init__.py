"""Edges of agents: asking them by django-ninja, conversations by DRF."""

from __future__ import annotations
