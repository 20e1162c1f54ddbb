"""Pure functions, one file one public function."""

from __future__ import annotations
