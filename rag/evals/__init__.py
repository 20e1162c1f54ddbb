"""Retrieval evaluation: data sets with judgements, metrics, and paired significance tests."""

from __future__ import annotations
