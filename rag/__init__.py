"""Citable's knowledge base: stores, files, chunks, search, citations."""

from __future__ import annotations
