"""HTTP for applications: verbs by django-ninja in ``rag``, nouns by DRF in ``resources``."""

from __future__ import annotations
