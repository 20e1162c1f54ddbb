"""HTTP API of the knowledge base: resources by DRF, actions by django-ninja."""

from __future__ import annotations
