"""Pure functions: values in, values out; no Django, no database."""

from __future__ import annotations
