"""The admin's side menu: every list of the admin has its entry, or is reached from another page."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import reverse

from project.admin_theme import UNFOLD

# Reached from the pages of chunks and of webhooks.
ELSEWHERE = {"rag_chunkrevision", "rag_webhookdelivery"}


def test_every_list_of_the_admin_has_an_entry() -> None:
    entries: list[dict[str, Any]] = [
        entry for part in UNFOLD["SIDEBAR"]["navigation"] for entry in part["items"]
    ]
    linked = {str(entry["link"]) for entry in entries}
    names = {f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry}
    missing = {
        name for name in names if reverse(f"admin:{name}_changelist") not in linked
    } - ELSEWHERE
    assert missing == set()
