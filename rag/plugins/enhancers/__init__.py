"""Our own prompt enhancers; importing this files them."""

from __future__ import annotations
