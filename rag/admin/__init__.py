"""The knowledge manager's desk."""

from __future__ import annotations
