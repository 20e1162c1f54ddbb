"""The Chinese catalogue is complete, compiled and keeps every placeholder."""

from __future__ import annotations

import gettext
import re
import string
from pathlib import Path

import pytest
from django.utils import translation

from rag.admin.ui.messages import error_sentence, warning_sentence
from rag.core.errors import DocumentError, UnknownNameError
from tests.edges.catalogue import (
    LOCALE,
    is_translated,
    messages_of_ours,
    messages_of_unfold,
    read_mo,
    read_po,
    write_mo,
)

PO = read_po(LOCALE / "django.po")


@pytest.fixture(scope="module")
def ours() -> list[str]:
    """Every text of ours; each file of the product is parsed for it."""
    return sorted(messages_of_ours())


def placeholders(text: str) -> set[str]:
    named = set(re.findall(r"%\(\w+\)[sd]", text))
    if named:
        return named
    return {f"{{{name}}}" for _, name, _, _ in string.Formatter().parse(text) if name}


def test_the_scan_sees_code_errors_hints_and_templates(ours: list[str]) -> None:
    assert "Disable: never found" in ours
    assert "“{name}” holds no text." in ours
    assert "Split it and upload the parts." in ours
    assert "Unknown {kind} “{name}”." in ours
    assert "Drop files here, or choose them" in ours
    assert len(ours) > 250


def test_every_text_of_ours_is_translated(ours: list[str]) -> None:
    assert [message for message in ours if not is_translated(message)] == []


def test_every_text_of_unfold_is_translated() -> None:
    missing = {message for message in messages_of_unfold() if not is_translated(message)}
    assert missing == set()


def test_no_translation_is_empty_or_forgotten(ours: list[str]) -> None:
    used = {*ours, *messages_of_unfold()}
    assert [message for message, texts in PO.items() if not all(texts)] == []
    assert [message for message in PO if message and message not in used] == []


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_the_compiled_catalogue_is_that_of_the_source(domain: str) -> None:
    assert read_mo(LOCALE / f"{domain}.mo") == read_po(LOCALE / f"{domain}.po")


def test_it_is_compiled_as_gettext_would(tmp_path: Path) -> None:
    source = tmp_path / "django.po"
    source.write_bytes((LOCALE / "django.po").read_bytes())
    write_mo(source)
    assert read_mo(tmp_path / "django.mo") == PO
    with (tmp_path / "django.mo").open("rb") as stream:
        catalog = gettext.GNUTranslations(stream)
    text = catalog.ngettext("%(n)d file was queued.", "%(n)d files were queued.", 2)
    assert text == "已将 %(n)d 个文件加入队列。"


def test_placeholders_survive_translation() -> None:
    lost = [
        (message, text)
        for message, texts in PO.items()
        for text in texts
        if message and placeholders(text) != placeholders(message)
    ]
    assert lost == []


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
