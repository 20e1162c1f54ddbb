"""Translated texts of the chat page's script, by name."""

from __future__ import annotations

from django.utils.translation import gettext as _


def chat_texts() -> dict[str, str]:
    """Return every text of the script; ``{name}`` is filled by it."""
    return {**_of_talking(), **_of_answers(), **_of_quotes()}


def _of_talking() -> dict[str, str]:
    return {
        "all_stores": _("All its stores"),
        "no_agent": _("There is no agent that you may ask. Ask an administrator for one."),
        "no_sessions": _("No conversations yet"),
        "new": _("New conversation"),
        "delete": _("Delete"),
        "delete_sure": _("Delete the conversation “{title}” with all its messages?"),
        "rename": _("Rename"),
        "new_title": _("A new title"),
        "looking": _("Looking for sources…"),
        "writing": _("Writing…"),
        "reconnecting": _("The connection was lost. Trying again…"),
        "lost": _("The connection was lost. Reload the page to see the answer."),
        "signed_out": _("You are not signed in any more. Reload the page and sign in."),
        "failed": _("The server could not answer. Try again."),
        "too_long": _("The answer is still being written. Stop it, or wait."),
        "other_agent": _("This conversation is with another agent, which you may not ask now."),
    }


def _of_answers() -> dict[str, str]:
    return {
        "stopped": _("Stopped. What was written stays."),
        "copy": _("Copy"),
        "copied": _("Copied"),
        "regenerate": _("Write it again"),
        "edit": _("Ask it in another way"),
        "go_on": _("Go on from here"),
        "going_on": _("The conversation goes on from the marked answer."),
        "before": _("The version before"),
        "after": _("The next version"),
        "version": _("Version {n} of {all}"),
        "good": _("A good answer"),
        "bad": _("A bad answer"),
        "good_short": _("Good"),
        "bad_short": _("Bad"),
        "comment": _("What was good or wrong? (optional)"),
        "save": _("Save"),
        "cancel": _("Cancel"),
        "thanks": _("Thank you. Your opinion is kept with the answer."),
        "rewritten": _("Searched for: {query}"),
        "dropped": _("Sentences without a source that were left out: {n}"),
        "kept": _("The answer was to be repaired, and stayed as it was: nothing better came."),
        "sources": _("Looked at: {n}"),
        "citations": _("Quotes"),
    }


def _of_quotes() -> dict[str, str]:
    return {
        "page": _("Page {n}"),
        "open_quote": _("Show where quote {n} stands"),
        "verified": _("verified"),
        "altered": _("altered"),
        "wrong_document": _("wrong document"),
        "unknown": _("not found"),
        "about_verified": _("The source says exactly this."),
        "about_altered": _("The source says it a little differently; its own words are marked."),
        "about_wrong_document": _("The words stand in another document than the one named."),
        "about_unknown": _("No source that was looked at says this."),
        "claim": _("What the answer says"),
        "quote": _("What it quotes"),
        "text": _("Text"),
        "picture": _("Picture of the page"),
        "picture_of": _("Page {n} of {name}; what is quoted is marked"),
        "drawing": _("The page is being drawn…"),
        "no_marks": _("The quote was not found on the picture of the page."),
        "changed": _("The file has changed since. This is the passage as it was quoted."),
        "zoom": _("Larger or smaller"),
        "loading": _("Loading…"),
    }
