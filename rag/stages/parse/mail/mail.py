"""Parser for e-mail ([RFC 5322]): headers, text and names of attachments."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from email.message import EmailMessage
from itertools import chain
from pathlib import Path
from typing import cast

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.detect.decode import declared_codec, decode_declared, decode_text
from rag.stages.detect.file_errors import damaged_file
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.web.html import add_html, decode_html

HEADERS = ("Subject", "From", "To", "Cc", "Date")
MAX_DEPTH = 20
UNREAD_ATTACHMENTS = Notice("Attachments are not read; upload them as files of their own.")
_LABEL = re.compile(r"=\?(gb2312|gbk|big5|iso-8859-1)\?(?=[bq]\?)", re.I)


class _AnyHeader(email.policy.EmailPolicy):
    """Reads headers of bare bytes in any encoding, and labels that name a subset of theirs."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        title, value = super().header_source_parse(sourcelines)
        value = value if value.isascii() else _bare_text(value.encode("utf-8", "surrogateescape"))
        return title, _LABEL.sub(lambda found: f"=?{declared_codec(found[1])}?", value)


_POLICY = _AnyHeader()


def parse_mail(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the message; attachments are named, not read. Raises DocumentError when damaged."""
    canonical = CanonicalText()
    try:
        message = _message(_as_bytes(path.read_bytes(), name))
        attached: list[str] = []
        _add_message(canonical, message, name, encoding, attached)
        subject = _header(message, "Subject")
    except (RecursionError, ValueError, LookupError, AttributeError, IndexError) as error:
        # The standard library's reader stumbles over malformed headers in all of these ways.
        raise damaged_file(name) from error
    if attached:
        canonical.add("list", attachment_list(attached))
        canonical.warnings.append(UNREAD_ATTACHMENTS)
    return canonical.finish("eml", "mail/3", title=subject)


def attachment_list(titles: Sequence[str]) -> str:
    """Return the names of attachments as the end of a message."""
    return "\n".join(["Attachments:", *(f"- {title}" for title in titles)])


def _as_bytes(data: bytes, name: str) -> bytes:
    """Return a message as its standard wants it: one that was saved in UTF-16 is not."""
    if b"\0" not in data[:4]:
        return data
    return decode_text(data, name)[0].removeprefix("\ufeff").encode("utf-8", "surrogateescape")


def _message(data: bytes) -> EmailMessage:
    return cast(EmailMessage, email.message_from_bytes(data, policy=_POLICY))


def _add_message(
    canonical: CanonicalText, message: EmailMessage, name: str, encoding: str, attached: list[str]
) -> None:
    lines = [f"{title}: {value}" for title in HEADERS if (value := _header(message, title))]
    canonical.add("paragraph", "\n".join(lines))
    for part in _shown_parts(message, 0):
        if part.get_content_type() == "message/rfc822":
            for inner in cast(list[EmailMessage], part.get_payload()):
                _add_message(canonical, _unpacked(part, inner), name, encoding, attached)
        elif _is_attachment(part):
            attached.append(" ".join((part.get_filename() or part.get_content_type()).split()))
        else:
            _add_text(canonical, part, name, encoding)


def _unpacked(part: EmailMessage, inner: EmailMessage) -> EmailMessage:
    """Return the message within a part; some programs pack it, which the standard forbids."""
    packing = str(part.get("Content-Transfer-Encoding") or "").strip().lower()
    if inner.keys() or packing not in ("base64", "quoted-printable"):
        return inner
    inner["Content-Transfer-Encoding"] = packing
    return _message(_bytes(inner))


def _shown_parts(part: EmailMessage, depth: int) -> Iterator[EmailMessage]:
    """Yield the leaves; of alternatives those of the first readable one, which is the plainest."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if not part.is_multipart() or part.get_content_type() == "message/rfc822":
        yield part
        return
    children = [child for child in part.iter_parts() if isinstance(child, EmailMessage)]
    if part.get_content_type() == "multipart/related":
        children = [child for child in children if not _is_resource(child)]
    if part.get_content_type() == "multipart/alternative":
        leaves = [list(_shown_parts(child, depth + 1)) for child in children]
        yield from next(filter(None, (list(filter(_is_text, own)) for own in leaves)), [])
        yield from filter(_is_attachment, chain.from_iterable(leaves))
        return
    for child in children:
        yield from _shown_parts(child, depth + 1)


def _is_resource(part: EmailMessage) -> bool:
    """Return whether a part belongs to the looks of a page: a style, or an image without a name."""
    is_named = part.get("Content-Location") or part.get("Content-ID")
    is_shown = part.is_multipart() or part.get_content_type() in ("text/plain", "text/html")
    return bool(is_named) and not is_shown and not part.get_filename()


def _is_text(part: EmailMessage) -> bool:
    return not _is_attachment(part) and bool(_bytes(part).strip())


def _is_attachment(part: EmailMessage) -> bool:
    is_text = part.get_content_type() in ("text/plain", "text/html")
    return not is_text or part.is_attachment()


def _add_text(canonical: CanonicalText, part: EmailMessage, name: str, encoding: str) -> None:
    is_page = part.get_content_subtype() == "html"
    label = part.get_content_charset()
    if label and not encoding:
        text, _ = decode_declared(_bytes(part), name, label)
    else:
        text, _ = (decode_html if is_page else decode_text)(_bytes(part), name, encoding)
    if is_page:
        add_html(text, canonical)
        return
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        canonical.add("paragraph", paragraph)


def _bytes(part: EmailMessage) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _bare_text(value: bytes) -> str:
    # A few words are too short for the detector; accented letters are never all in pairs.
    for codec in ("utf-8", "gb2312"):
        with suppress(UnicodeDecodeError):
            return value.decode(codec)
    with suppress(DocumentError):
        return decode_text(value)[0]
    return value.decode("utf-8", "replace")


def _header(message: EmailMessage, title: str) -> str:
    return " ".join(str(message.get(title) or "").split())
