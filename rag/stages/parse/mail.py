"""Mail ([RFC 5322]). In: a file. Out: its headers, its text and the names of what is attached."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import cast

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.decode import decode_text
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.html import add_html, decode_html

HEADERS = ("Subject", "From", "To", "Cc", "Date")
MAX_DEPTH = 20


def parse_mail(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the message; attachments are named, not read. Raises DocumentError when damaged."""
    canonical = CanonicalText()
    try:
        message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        attached: list[str] = []
        _add_message(canonical, message, name, encoding, attached)
        subject = _header(message, "Subject")
    except (RecursionError, ValueError, LookupError, AttributeError, IndexError) as error:
        # The standard library's reader stumbles over malformed headers in all of these ways.
        raise DocumentError(
            "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
        ) from error
    if attached:
        canonical.add("list", "\n".join(["Attachments:", *(f"- {title}" for title in attached)]))
        canonical.warnings.append(
            Notice("Attachments are not read; upload them as files of their own.")
        )
    return canonical.finish("eml", "mail/1", title=subject)


def _add_message(
    canonical: CanonicalText, message: EmailMessage, name: str, encoding: str, attached: list[str]
) -> None:
    lines = [f"{title}: {value}" for title in HEADERS if (value := _header(message, title))]
    canonical.add("paragraph", "\n".join(lines))
    for part in _shown_parts(message, 0):
        if part.get_content_type() == "message/rfc822":
            for inner in cast(list[EmailMessage], part.get_payload()):
                _add_message(canonical, inner, name, encoding, attached)
        elif _is_attachment(part):
            attached.append(_file_name(part))
        else:
            _add_text(canonical, part, name, encoding)


def _shown_parts(part: EmailMessage, depth: int) -> Iterator[EmailMessage]:
    """Yield the leaves; of alternatives the first readable one, which is the plainest."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if not part.is_multipart() or part.get_content_type() == "message/rfc822":
        yield part
        return
    children = [child for child in part.iter_parts() if isinstance(child, EmailMessage)]
    if part.get_content_type() == "multipart/alternative":
        leaves = [leaf for child in children for leaf in _shown_parts(child, depth + 1)]
        texts = [leaf for leaf in leaves if not _is_attachment(leaf) and _bytes(leaf).strip()]
        yield from texts[:1]
        yield from (leaf for leaf in leaves if _is_attachment(leaf))
        return
    for child in children:
        yield from _shown_parts(child, depth + 1)


def _is_attachment(part: EmailMessage) -> bool:
    is_text = part.get_content_type() in ("text/plain", "text/html")
    return not is_text or part.is_attachment()


def _add_text(canonical: CanonicalText, part: EmailMessage, name: str, encoding: str) -> None:
    declared = encoding or part.get_content_charset() or ""
    data = _bytes(part)
    read = decode_html if part.get_content_subtype() == "html" else decode_text
    try:
        text, _ = read(data, name, {"gb2312": "gb18030", "gbk": "gb18030"}.get(declared, declared))
    except DocumentError:
        if encoding:
            raise
        text, _ = read(data, name)  # The message lies about its characters.
    if part.get_content_subtype() == "html":
        add_html(text, canonical)
        return
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        canonical.add("paragraph", paragraph)


def _bytes(part: EmailMessage) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _header(message: EmailMessage, title: str) -> str:
    return " ".join(str(message.get(title) or "").split())


def _file_name(part: EmailMessage) -> str:
    return " ".join((part.get_filename() or part.get_content_type()).split())
