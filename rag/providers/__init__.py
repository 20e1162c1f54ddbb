"""Implementations of ports, named by technology."""

from __future__ import annotations
