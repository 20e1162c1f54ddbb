"""HTTP routes."""

from __future__ import annotations
