"""Soak: an installation at work for long, its processes killed, its disk full; nothing may be lost."""
