"""Where rows come from: the databases and files that our data sources read."""

from __future__ import annotations
