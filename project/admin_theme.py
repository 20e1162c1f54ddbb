"""Admin theme: title, icons, styles and side navigation of django-unfold; read by the settings."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from django.urls import reverse, reverse_lazy
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _


def _way(title: Any, icon: str, name: str) -> dict[str, Any]:
    """Return an entry of the admin's side navigation, shown to who may view such rows."""
    app, model = name.split("_")
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{name}_changelist"),
        "permission": lambda request: request.user.has_perm(f"{app}.view_{model}"),
    }


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Citable",
    "SITE_HEADER": "Citable",
    "SITE_SYMBOL": "format_quote",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": lambda request: static("rag/admin/favicon.svg"),
        }
    ],
    "SHOW_LANGUAGES": True,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "rag.admin.operations.dashboard.fill_dashboard",
    # Nothing is written into pages, which allow no styles within; the colours are a file.
    "COLORS": lambda request: {},
    "STYLES": [
        lambda request: reverse("theme-css"),
        lambda request: static("rag/admin/desk.css"),
    ],
    "SCRIPTS": [
        lambda request: static("rag/admin/csp.js"),
        lambda request: static("rag/admin/desk.js"),
    ],
    "SIDEBAR": {
        "show_search": False,
        "navigation": [
            {
                "title": _("Knowledge"),
                "items": [
                    _way(_("Stores"), "inventory_2", "rag_store"),
                    _way(_("Connections"), "cloud_sync", "rag_connection"),
                    _way(_("Files"), "description", "rag_file"),
                    _way(_("Chunks"), "segment", "rag_chunk"),
                    _way(_("Unplaced edits"), "link_off", "rag_chunkconflict"),
                ],
            },
            {
                "title": _("Assistants"),
                "separator": True,
                "items": [
                    {"title": _("Chat"), "icon": "forum", "link": reverse_lazy("chat")},
                    _way(_("Agents"), "smart_toy", "agents_agent"),
                    _way(_("Widgets"), "chat_bubble", "agents_widget"),
                    _way(_("Flows"), "account_tree", "agents_flow"),
                    _way(_("Runs"), "play_circle", "agents_flowrun"),
                    {
                        "title": _("Pending reviews"),
                        "icon": "rule",
                        "link": format_lazy(
                            "{}?status__exact=paused",
                            reverse_lazy("admin:agents_flowrun_changelist"),
                        ),
                        "permission": lambda request: request.user.has_perm("agents.view_flowrun"),
                        # Its address is that of the runs, which is marked already.
                        "active": lambda request: False,
                    },
                    _way(_("Conversations"), "chat", "agents_session"),
                    _way(_("Messages"), "sms", "agents_message"),
                ],
            },
            {
                "title": _("Insight"),
                "separator": True,
                "items": [
                    _way(_("Query log"), "manage_search", "rag_querylog"),
                    _way(_("Golden questions"), "verified", "rag_goldenquestion"),
                    _way(_("Evaluation runs"), "monitoring", "rag_evaluationrun"),
                    _way(_("Model usage"), "payments", "rag_usagerecord"),
                    _way(_("Spaces"), "hub", "rag_embeddingspace"),
                    _way(_("Reindex runs"), "sync", "rag_reindexrun"),
                    _way(_("Jobs"), "progress_activity", "procrastinate_procrastinatejob"),
                ],
            },
            {
                "title": _("People"),
                "separator": True,
                "items": [
                    _way(_("Users"), "person", "auth_user"),
                    _way(_("Groups"), "group", "auth_group"),
                    _way(_("API keys"), "key", "rag_apikey"),
                    _way(_("Webhooks"), "webhook", "rag_webhook"),
                    # Its pages are for superusers, whatever permissions others have.
                    _way(_("Permissions to send out"), "outgoing_mail", "agents_outboundgrant")
                    | {"permission": lambda request: request.user.is_superuser},
                    _way(_("Budgets"), "savings", "rag_budget"),
                    _way(_("Audit"), "history", "rag_auditentry"),
                ],
            },
        ],
    },
}
