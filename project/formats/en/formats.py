"""Dates as lists show them: short, and with the hours of a day in order."""

from __future__ import annotations

DATETIME_FORMAT = "j M Y, H:i"
