"""What a flow says: its definition, conditions, templates and checks. Knows no graph engine."""

from __future__ import annotations
