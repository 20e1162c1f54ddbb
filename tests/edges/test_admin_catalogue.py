"""The Chinese catalogue is complete, compiled and keeps every placeholder."""

from __future__ import annotations

import re
import string

import pytest
from django.utils import translation
from django.utils.translation import gettext, ngettext

from rag.admin.sentences import error_sentence, warning_sentence
from rag.core.errors import DocumentError, UnknownNameError
from tests.edges.catalogue import (
    BASE_DIR,
    CONTEXT,
    LOCALE,
    messages_of_code,
    messages_of_templates,
    messages_of_unfold,
    read_mo,
    read_po,
)

OURS = sorted(
    {
        *messages_of_code("rag", "agents", "project"),
        *messages_of_templates(BASE_DIR / "templates"),
    }
)
PO = read_po(LOCALE / "django.po")
# Names that are the same in every language.
SAME = {"e5:multilingual-e5-small"}


def is_translated(message: str) -> bool:
    context, _, text = message.rpartition(CONTEXT)
    with translation.override("zh-hans"):
        if context:
            return translation.pgettext(context, text) != text
        return (
            message in PO or gettext(message) != message or ngettext(message, message, 2) != message
        )


def placeholders(text: str) -> set[str]:
    named = set(re.findall(r"%\(\w+\)[sd]", text))
    if named:
        return named
    return {f"{{{name}}}" for _, name, _, _ in string.Formatter().parse(text) if name}


def test_the_scan_sees_code_errors_hints_and_templates() -> None:
    assert "Switch off: never found" in OURS
    assert "“{name}” holds no text." in OURS
    assert "Split it and upload the parts." in OURS
    assert "Unknown {kind} “{name}”." in OURS
    assert "Drop files here, or choose them" in OURS
    assert len(OURS) > 250


def test_every_text_of_ours_is_translated() -> None:
    assert [message for message in OURS if not is_translated(message) and message not in SAME] == []


def test_every_text_of_unfold_is_translated() -> None:
    missing = {message for message in messages_of_unfold() if not is_translated(message)}
    assert missing == set()


def test_no_translation_is_empty_or_forgotten() -> None:
    used = {*OURS, *messages_of_unfold()}
    assert [message for message, texts in PO.items() if not all(texts)] == []
    assert [message for message in PO if message and message not in used] == []


def test_the_compiled_catalogue_is_that_of_the_source() -> None:
    assert read_mo(LOCALE / "django.mo") == PO


@pytest.mark.parametrize("message", [message for message in PO if message])
def test_placeholders_survive_translation(message: str) -> None:
    for text in PO[message]:
        assert placeholders(text) == placeholders(message)


def test_an_error_is_told_in_the_reader_s_language() -> None:
    stored = DocumentError(
        "“{name}” holds no text.", hint="Upload one with text.", name="空.pdf"
    ).as_dict()
    with translation.override("zh-hans"):
        assert error_sentence(stored) == "“空.pdf”中没有文本。 请上传含有文本的文件。"
    with translation.override("en"):
        assert error_sentence(stored) == "“空.pdf” holds no text. Upload one with text."
        assert error_sentence(None) == ""


def test_the_kind_of_an_unknown_name_is_translated_too() -> None:
    error = UnknownNameError("retrieval mode", "x", ["auto"])
    with translation.override("zh-hans"):
        assert error_sentence(error) == "未知的检索方式“x”。 可用：auto。"
    assert error.params["kind"] == "retrieval mode"


def test_a_warning_may_be_a_sentence_or_a_template() -> None:
    with translation.override("zh-hans"):
        assert warning_sentence("just text") == "just text"
        stored = {"message": "“{name}” holds no text.", "params": {"name": "a"}}
        assert warning_sentence(stored) == "“a”中没有文本。"
