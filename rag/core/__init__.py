"""Values, ports, errors, access and names. Standard library only, no Django."""

from __future__ import annotations
