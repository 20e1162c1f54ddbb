"""Sessions and messages in the admin; read-only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from agents import models
from agents.chat.answers.golden import keep_as_golden
from agents.chat.history.evidence import redact_unreadable
from agents.chat.history.titles import hidden_titles
from rag.admin.operations.query_log import VERDICT_LABELS
from rag.admin.ui.cells import column, join_cells, label, text_block
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import OverviewAdmin, ReadOnlyAdmin, scope_for
from rag.core.access import Scope
from rag.core.errors import RAGError

STEP_LABELS = {
    "load_history": _("earlier turns"),
    "recall": _("memories"),
    "page": _("what the page sent"),
    "rewrite": _("putting the question"),
    "route": _("routing"),
    "search": _("searching"),
    "rerank": _("reranking"),
    "look": _("searching"),
    "generate": _("writing"),
    "converse": _("answering from the conversation"),
    "plan": _("planning"),
    "ask": _("delegating to agents"),
    "merge": _("combining results"),
    "think": _("thinking"),
    "act": _("using tools"),
    "answer": _("writing"),
}

_STATUS = models.Message.Status
COLOURS = {
    _STATUS.RUNNING: "busy",
    _STATUS.DONE: "good",
    _STATUS.STOPPED: "idle",
    _STATUS.ERROR: "bad",
}


@admin.register(models.Session)
class SessionAdmin(ReadOnlyAdmin):
    """One's own conversations; operators see all."""

    list_display = ("title", "agent", "user", "turns", "updated_at")
    list_select_related = ("agent", "user", "titled_after")
    list_filter = (("agent", admin.RelatedOnlyFieldListFilter),)
    search_fields = ("title",)
    sortable_by = ("updated_at",)
    fields = ("title", "agent", "user", "created_at", "updated_at", "conversation")
    readonly_fields = ("conversation",)

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return queryset if scope.is_operator else queryset.readable(scope)  # type: ignore[attr-defined]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        # Who may not read a title finds nothing by it.
        return self.search_fields if scope_for(request).is_operator else ()

    def redact_rows(self, rows: list[Any], scope: Scope) -> None:
        """Show the first question where a title may not be read."""
        hidden = hidden_titles(sessions=rows, scope=scope)
        for row in rows:
            row.title = hidden.get(row.pk, row.title)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return the session as the visitor may read it."""
        session = super().get_object(request, object_id, from_field)
        if session is not None:
            session.read_by = scope_for(request)
            self.redact_rows([session], session.read_by)
        return session

    def complete_rows(self, rows: list[Any]) -> None:
        """Count the messages of the rows shown."""
        messages = models.Message.objects.filter(session__in=rows).order_by()
        counts = dict(messages.values_list("session").annotate(n=Count("pk")))
        for row in rows:
            row.n_messages = counts.get(row.pk, 0)

    turns = column(_("messages"), lambda session: int(session.n_messages))

    @admin.display(description=_("conversation"))
    def conversation(self, session: models.Session) -> SafeString:
        """Return the messages in order, each with a link to its page."""
        rows = list(session.messages.select_related("parent").order_by("pk")[:500])
        shown = redact_unreadable(messages=rows, scope=session.read_by)  # type: ignore[attr-defined]
        lines = (
            (
                reverse("admin:agents_message_change", args=[row.pk]),
                row.get_role_display(),
                shown[row.pk].content,
            )
            for row in rows
        )
        return format_html_join(
            "",
            '<p class="desk-note"><a class="desk-link" href="{}">{}</a></p>'
            '<pre class="desk-text">{}</pre>',
            lines,
        )


@admin.register(models.Message)
class MessageAdmin(ReadOnlyAdmin, OverviewAdmin):
    """The turns of one's own conversations; operators see all."""

    list_select_related = ("parent",)
    list_display = ("text", "role", "state", "outcome", "verdicts", "thumb", "model", "created_at")
    list_filter = ("role", "status", "outcome", "feedback")
    search_fields = ("content",)
    sortable_by = ("created_at",)
    fields = (
        "role",
        "state",
        "text_whole",
        "query",
        "outcome",
        "confidence",
        "quotes",
        "looked_at",
        "feedback",
        "feedback_comment",
        "model",
        "usage_now",
        "times",
        "failure",
        "created_at",
    )
    readonly_fields = (
        "state",
        "text_whole",
        "quotes",
        "looked_at",
        "usage_now",
        "times",
        "failure",
    )

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return queryset if scope.is_operator else queryset.readable(scope)  # type: ignore[attr-defined]

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        # Who may not read an answer finds nothing by it.
        return self.search_fields if scope_for(request).is_operator else ()

    def redact_rows(self, rows: list[Any], scope: Scope) -> None:
        """Take out the words of passages that are gone by now, or hidden from the visitor."""
        shown = redact_unreadable(messages=rows, scope=scope)
        for row in rows:
            evidence = shown[row.pk]
            row.content, row.query = evidence.content, evidence.query
            row.sources, row.citations = evidence.sources, evidence.citations
            row.grounding = evidence.grounding

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return the message as the visitor may read it."""
        message = super().get_object(request, object_id, from_field)
        if message is not None:
            self.redact_rows([message], scope_for(request))
        return message

    change_form_outer_before_template = "admin/agents/message_golden.html"

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (("<int:pk>/golden/", require_POST(self.golden_view), "agents_message_golden"),)

    def overview(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return whether a golden question may be made of it."""
        is_answer = obj.role == models.Message.Role.ASSISTANT
        return {"may_expect": is_answer and request.user.has_perm("rag.add_goldenquestion")}

    def golden_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Make a golden question of an answer and go on to its page."""
        message = self.get_object(request, str(pk))
        if message is None or not request.user.has_perm("rag.add_goldenquestion"):
            raise PermissionDenied
        try:
            made = keep_as_golden(message=message, scope=scope_for(request), user=request.user)
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            return HttpResponseRedirect(reverse("admin:agents_message_change", args=[pk]))
        self.message_user(request, gettext("Kept. Look at what must be found."), messages.SUCCESS)
        url = reverse("admin:rag_goldenquestion_change", args=[made[0].pk])
        return HttpResponseRedirect(url)

    text = column(_("content"), lambda message: Truncator(message.content).chars(100) or "–")
    text_whole = column(_("content"), lambda message: text_block(message.content or "–"))
    state = column(
        _("status"),
        lambda message: label(message.get_status_display(), COLOURS[_STATUS(message.status)]),
    )

    @admin.display(description=_("quotes"))
    def verdicts(self, message: models.Message) -> SafeString:
        """Return how many quotes have which verdict."""
        counts = Counter(one.get("verdict", "") for one in message.citations)
        return join_cells(_verdict(*found) for found in counts.items()) or SafeString("–")

    @admin.display(description=_("feedback"), ordering="feedback")
    def thumb(self, message: models.Message) -> Any:
        """Return what its reader thought of it."""
        if message.feedback is None:
            return "–"
        return label(message.get_feedback_display(), "good" if message.feedback > 0 else "bad")

    @admin.display(description=_("quotes"))
    def quotes(self, message: models.Message) -> SafeString:
        """Return every quote with its place and verdict."""
        rows = (
            (
                one.get("number"),
                _verdict(one.get("verdict", "")),
                one.get("file_name") or "–",
                one.get("page") or "–",
                one.get("quote"),
            )
            for one in message.citations
        )
        return format_html_join("", "<p>[{}] {} {}, {}: “{}”</p>", rows) or SafeString("–")

    @admin.display(description=_("sources"))
    def looked_at(self, message: models.Message) -> SafeString:
        """Return what was looked at, its beginnings."""
        rows = (
            (one.get("doc_id") or "–", one.get("file_name") or "–", str(one.get("content"))[:200])
            for one in message.sources
        )
        return format_html_join(
            "", '<p>{} {} <span class="desk-note">{}</span></p>', rows
        ) or SafeString("–")

    usage_now = column(
        _("usage"),
        lambda message: json.dumps(message.usage, ensure_ascii=False) if message.usage else "–",
    )

    @admin.display(description=_("times in ms"))
    def times(self, message: models.Message) -> SafeString:
        """Return the time of each step."""
        rows = ((STEP_LABELS.get(name, name), ms) for name, ms in message.timings_ms.items())
        return format_html_join(" · ", "{} {}", rows) or SafeString("–")

    failure = column(_("error"), lambda message: error_sentence(message.error) or "–")


def _verdict(name: str, n: int = 0) -> SafeString:
    text, colour = VERDICT_LABELS.get(name, (name, "idle"))
    return label(f"{n} {text}" if n else text, colour)
