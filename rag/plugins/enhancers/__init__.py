"""Our own prompt enhancers; importing this registers them."""

from __future__ import annotations

from rag.plugins.enhancers import analytical as analytical
from rag.plugins.enhancers import creative as creative
from rag.plugins.enhancers import standard as standard
