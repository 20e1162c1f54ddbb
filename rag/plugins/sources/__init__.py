"""Our own data sources; importing this files them."""

from __future__ import annotations
