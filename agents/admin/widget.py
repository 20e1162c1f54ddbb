"""Widgets in the admin: which agent is open to everybody, on which sites, and its line of HTML."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any

import qrcode
from django import forms
from django.contrib import admin
from django.contrib.postgres.forms import SimpleArrayField
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from qrcode.image.svg import SvgPathImage

from agents import models
from agents.chat.agents.widgets import check_widget, parse_origin
from agents.models.widget import MAX_ORIGINS
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import KeptMakerAdmin
from rag.admin.ui.theme import ColorInput, Textarea
from rag.core.errors import RAGError


class _OriginsField(SimpleArrayField):
    """Origins, one a line."""

    widget = Textarea

    def __init__(self, base_field: forms.Field, **values: Any) -> None:
        super().__init__(base_field, **{**values, "delimiter": "\n", "max_length": MAX_ORIGINS})

    def clean(self, value: str) -> list[str]:
        """Return the origins as browsers write them, each once."""
        lines = super().clean("\n".join(str(value).split()))
        try:
            return list(dict.fromkeys(map(parse_origin, lines)))
        except RAGError as error:
            raise forms.ValidationError(error_sentence(error)) from error


class _WidgetForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    class Meta:
        model = models.Widget
        fields = (
            "name",
            "agent",
            "group",
            "origins",
            "colour",
            "requests_per_minute",
            "is_enabled",
        )
        field_classes = {"origins": _OriginsField}
        widgets = {"colour": ColorInput}

    def clean(self) -> dict[str, Any]:
        """Refuse an agent that visitors could not ask, and a group that may change things."""
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if given.get("agent") is not None and "group" in given:
            try:
                check_widget(agent=given["agent"], group=given["group"])
            except RAGError as error:
                raise forms.ValidationError(error_sentence(error)) from error
        return given


def qr_code(text: str) -> str:
    """Return a QR code as the address of a picture within the page."""
    drawn = BytesIO()
    qrcode.make(text, image_factory=SvgPathImage, box_size=12).save(drawn)
    return f"data:image/svg+xml;base64,{b64encode(drawn.getvalue()).decode()}"


@admin.register(models.Widget)
class WidgetAdmin(KeptMakerAdmin):
    """Made by superusers alone: each opens an agent to everybody."""

    form = _WidgetForm
    list_display = ("name", "agent", "is_enabled", "created_at")
    list_select_related = ("agent",)
    autocomplete_fields = ("agent",)
    change_form_outer_before_template = "admin/agents/widget_overview.html"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the line for other sites, the link and its QR code above the form."""
        widget = self.get_object(request, object_id)
        if widget is not None:
            link = request.build_absolute_uri(reverse("widget", args=[widget.key]))
            script = format_html('<script async src="{}.js"></script>', link)
            overview = {"widget": widget, "link": link, "script": script, "qr": qr_code(link)}
            extra_context = {**(extra_context or {}), "overview": overview}
        return super().change_view(request, object_id, form_url, extra_context)
