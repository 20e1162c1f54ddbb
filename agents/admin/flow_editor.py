"""Flow editor's page data: addresses, and the translated texts of its scripts (``{name}``)."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from agents import models

TEXTS = {
    "start": pgettext_lazy("flow", "Start"),
    "end": _("End"),
    "end_note": _("Here a run ends."),
    "implied_note": _("A node without an edge of its own leads to the end."),
    "flow": _("Flow"),
    "entry_help": _("The node that a run begins with."),
    "conditions": {
        "always": _("always"),
        "default": _("otherwise"),
        "failure": _("when it failed"),
        "expression": _("on a condition"),
    },
    "expression_help": _('Such as: risk == "high" && confidence >= 0.8'),
    "leads": _("Leads to"),
    "join": _("Join to"),
    "add": _("Add"),
    "add_after": _("Add a node behind it"),
    "remove": _("Remove"),
    "chosen": _("{n} chosen"),
    "more": _("More options ({n})"),
    "default": _("default: {value}"),
    "text": _("by name"),
    "as_yaml": _("As YAML."),
    "prompt_text": _("Text of the prompt"),
    "required": _("required"),
    "broken": _("The YAML cannot be read, so the canvas shows it as it was. Mend it there."),
    "too_large": _("More than 500 nodes or 5,000 edges are not drawn: see the YAML."),
    "unreachable": _("The server cannot be asked at this moment; nothing is lost."),
    "found": _("To look at: {n}"),
    "sound": _("no problems"),
    "error": _("to mend"),
    "warning": _("doubtful"),
    "place": _("line {line}, column {column}"),
    "kept": _("Not saved yet; a draft is kept in this browser."),
    "not_kept": _("Not saved yet, and this browser keeps no draft."),
    "draft": _("A draft of {at} was not saved."),
}
# What React Flow says of itself, by its own names.
_ARIA = {
    "node.a11yDescription.default": _("Enter chooses a node, Delete removes it, Escape lets go."),
    "node.a11yDescription.keyboardDisabled": _(
        "Enter chooses a node, arrows move it, Delete removes it, Escape lets go."
    ),
    "edge.a11yDescription.default": _("Enter chooses an edge, Delete removes it, Escape lets go."),
    "controls.ariaLabel": _("View of the canvas"),
    "controls.zoomIn.ariaLabel": _("Zoom in"),
    "controls.zoomOut.ariaLabel": _("Zoom out"),
    "controls.fitView.ariaLabel": _("Show all"),
    "handle.ariaLabel": _("Where edges begin and end"),
}
# What CodeMirror says, by its own English.
_PHRASES = {
    "Find": _("Find"),
    "Replace": _("Replace"),
    "next": _("next"),
    "previous": _("previous"),
    "all": _("all"),
    "match case": _("match case"),
    "regexp": _("regular expression"),
    "by word": _("whole words"),
    "replace": _("replace"),
    "replace all": _("replace all"),
    "close": _("close"),
    "Completions": _("Completions"),
    "Diagnostics": _("Findings"),
    "No diagnostics": _("no problems"),
}


def editor_data(
    request: HttpRequest, flow: models.Flow | None, *, is_unsaved: bool
) -> dict[str, Any]:
    """Return what the editor's scripts are told; ``is_unsaved``: the page repeats what was sent."""
    name = flow.name if flow else "new"
    return {
        "texts": {**TEXTS, "aria": _ARIA},
        "phrases": _PHRASES,
        "schema": "/api/flow-schema",
        "check": f"/api/flows/{name}/check",
        # Drafts of one person and one flow; a name can be given away after a deletion.
        "draft": f"{request.user.pk}:{flow.pk if flow else 'new'}",
        "is_unsaved": is_unsaved,
    }
