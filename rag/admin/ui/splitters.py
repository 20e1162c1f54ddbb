"""Chunking templates as choices of a form: what each is called, and what it does in words."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from rag.admin.ui.theme import RadioSelect
from rag.conf import conf
from rag.core.plugins import PLUGINS

# What people look for first comes first; plugins of others follow.
_ORDER = ("sentences", "parent_child", "laws", "qa", "rows", "book", "paper", "slides", "code")


def template_label(name: str) -> str:
    """Return what a template is called; its own name where it is not installed any more."""
    if name not in PLUGINS.names("splitter"):
        return name
    return _(str(PLUGINS.get("splitter", name).label))


def template_choices(empty: str, chosen: str = "") -> list[tuple[str, str]]:
    """Return (name, label) of all templates, behind one for none of them."""
    known = list(PLUGINS.names("splitter"))
    names = sorted(known, key=lambda one: (_ORDER.index(one) if one in _ORDER else 99, one))
    names += [chosen] if chosen and chosen not in known else []
    return [("", empty), *((name, template_label(name)) for name in names)]


def rechunk_sentence(n_files: int) -> str:
    """Return what becomes of a store's files after its template was changed."""
    text = ngettext(
        "%(n)d file is cut anew by the queue; its present chunks serve meanwhile, and edits stay.",
        "%(n)d files are cut anew by the queue; their present chunks serve meanwhile, and edits "
        "stay.",
        n_files,
    )
    return text % {"n": n_files}


def installation_choice() -> str:
    """Return the label of a store that chooses none."""
    return _("Default of the installation: %(label)s") % {"label": template_label(conf().splitter)}


class TemplateField(forms.ChoiceField):
    """A chunking template, each with its description."""

    def __init__(self, *, help_text: Any) -> None:
        super().__init__(
            label=gettext_lazy("chunking template"),
            required=False,
            widget=RadioSelect,
            help_text=help_text,
        )

    def offer(self, chosen: str) -> None:
        """Offer all templates, and one that is chosen though nobody knows it."""
        self.choices = [
            (name, _described(name, label))
            for name, label in template_choices(installation_choice(), chosen)
        ]


def _described(name: str, label: str) -> SafeString:
    plugin = PLUGINS.get("splitter", name) if name in PLUGINS.names("splitter") else None
    said = getattr(plugin, "description", "")
    if not said:
        return format_html("{}", label)
    return format_html('<b>{}</b> <span class="desk-note">{}</span>', label, _(str(said)))
