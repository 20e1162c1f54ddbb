"""What files are called on the web."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core.errors import DocumentError
from rag.stages.detect.mime_type import mime_type_of

OOXML = "application/vnd.openxmlformats-officedocument."
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def docx() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        main = f'<Override PartName="/word/document.xml" ContentType="{OOXML}wordprocessingml.document.main+xml"/>'
        archive.writestr("[Content_Types].xml", f"<Types>{main}</Types>")
        archive.writestr("word/document.xml", "<w:document/>")
    return made.getvalue()


def told(tmp_path: Path, data: bytes, name: str) -> str:
    path = tmp_path / "bytes"
    path.write_bytes(data)
    return mime_type_of(path, name)


@pytest.mark.parametrize(
    ("data", "name", "mime_type"),
    [
        (b"%PDF-1.7\n", "a.pdf", "application/pdf"),
        (b"%PDF-1.7\n", "a.txt", "application/pdf"),
        (b"hello", "a.txt", "text/plain"),
        ("保固".encode(), "保固 手冊", "text/plain"),
        (b"hello", "a.unknown", "text/plain"),
        (b"# Title", "a.md", "text/markdown"),
        (b"a,b\n1,2", "a.csv", "text/csv"),
        (b"a\tb", "a.tsv", "text/tab-separated-values"),
        (b'{"a": 1}', "a.json", "application/json"),
        (b'{"cells": []}', "a.ipynb", "application/json"),
        (b'{"a": 1}\n{"a": 2}', "a.jsonl", "text/plain"),
        (b"a: 1", "a.yaml", "text/plain"),
        (b"INFO started", "a.log", "text/plain"),
        (b"print(1)", "a.PY", "text/x-python"),
        (b"<html><body>x</body></html>", "a.html", "text/html"),
        (b"<html><body>x</body></html>", "a", "text/html"),
        (b"<?xml version='1.0'?><r/>", "a.xml", "text/xml"),
        (b"\xff\xfeh\0i\0", "a.txt", "text/plain"),
        (docx(), "a.docx", f"{OOXML}wordprocessingml.document"),
        (docx(), "a.bin", f"{OOXML}wordprocessingml.document"),
        (b"{\\rtf1 x}", "a.rtf", "application/rtf"),
        (b"\x89PNG\r\n\x1a\n123", "a.jpg", "image/png"),
        (b"\xff\xd8\xff\xe0", "a", "image/jpeg"),
        (b"GIF89a..", "a.gif", "image/gif"),
        (b"GIF87a..", "a.gif", "image/gif"),
        (b"RIFF1234WEBPVP8 ", "a.webp", "image/webp"),
    ],
)
def test_the_content_decides_and_then_the_name(
    tmp_path: Path, data: bytes, name: str, mime_type: str
) -> None:
    assert told(tmp_path, data, name) == mime_type


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"", "a.txt", "“a.txt” is empty"),
        (b" \n", "a.txt", "holds no text"),
        (b"ab\0cd", "a.bin", "neither text nor a kind of document"),
        (b"7z\xbc\xaf\x27\x1cxx", "a.7z", "is an archive"),
        (b"\0\0\0\x18ftypheic", "a.heic", "is an image"),
        (OLE + bytes(600), "a.doc", "“a.doc”"),
    ],
)
def test_what_nobody_can_tell_is_refused_by_name(
    tmp_path: Path, data: bytes, name: str, words: str
) -> None:
    with pytest.raises(DocumentError, match=words):
        told(tmp_path, data, name)


@given(st.binary(max_size=300), st.sampled_from(["a", "a.txt", "a.json", "a.doc", "é.rtf"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_have_a_type_or_a_reason(tmp_path: Path, data: bytes, name: str) -> None:
    try:
        kind, slash, rest = told(tmp_path, data, name).partition("/")
    except DocumentError as error:
        assert f"“{name}”" in str(error)
    else:
        assert kind and slash and rest
