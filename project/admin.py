"""Admin of the site: accounts and groups; found by Django's autodiscovery."""

from __future__ import annotations

from project.accounts import people as people
