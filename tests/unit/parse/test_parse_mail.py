"""Mail as programs write it: bare bytes in headers, labels that lie, messages within messages."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from rag.core.documents import ParsedDocument
from rag.stages.parse import parse_document

PLAIN = b"MIME-Version: 1.0\nContent-Type: text/plain; charset=%s\n\n"


@pytest.fixture
def parse(tmp_path: Path):
    def call(data: bytes) -> ParsedDocument:
        path = tmp_path / "upload"
        path.write_bytes(data)
        return parse_document(path, "a.eml")

    return call


def parts(kind: bytes, *bodies: bytes) -> bytes:
    """Return headers and body of a multipart message; each body begins with its own headers."""
    head = b"From: a@b.example\nMIME-Version: 1.0\nContent-Type: multipart/%s; boundary=%s\n\n"
    edge = b"edge-" + kind
    return (
        head % (kind, edge)
        + b"".join(b"--%s\n%s\n" % (edge, body) for body in bodies)
        + (b"--%s--\n" % edge)
    )


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("水泵故障".encode("gbk"), "水泵故障"),
        ("水泵故障".encode(), "水泵故障"),
        ("水泵\n 故障".encode("gbk"), "水泵 故障"),
        ("Höhe der Tür".encode("cp1252"), "Höhe der Tür"),
        # The label names a subset of what is written.
        (b"=?GB2312?B?" + b64encode("镕基喆".encode("gbk")) + b"?=", "镕基喆"),
        (b"=?gb2312?b?" + b64encode("水".encode("gbk")) + b"?=", "水"),
        (b"=?iso-8859-1?Q?=8012?=", "€12"),
        (b"=?UTF-8?B?5rC0?=\n =?UTF-8?B?5rO1?=", "水泵"),
        (b"=?no-such?B?5rC0?= x", "水 x"),
    ],
)
def test_a_subject_is_read_in_whatever_it_is_written(parse, subject: bytes, text: str) -> None:
    mail = b"From: a@b.example\nSubject: " + subject + b"\n" + PLAIN % b"utf-8" + b"body"
    document = parse(mail)
    assert document.title == text
    assert document.text == f"Subject: {text}\nFrom: a@b.example\n\nbody"


def test_the_name_of_an_attachment_may_be_bare_bytes_too(parse) -> None:
    name = "照片.pdf".encode("gbk")
    head = b'Content-Type: application/pdf\nContent-Disposition: attachment; filename="%s"\n\nx'
    assert parse(parts(b"mixed", b"\nhello", head % name)).text.endswith(
        "hello\n\nAttachments:\n- 照片.pdf"
    )


@pytest.mark.parametrize("label", [b"iso-8859-1", b"us-ascii", b"gb2312", b"no-such", b"idna"])
def test_utf8_is_known_whatever_the_label_says(parse, label: bytes) -> None:
    for body in ("Die Höhe der Tür und die größere Höhe", "水箱每周清洗一次，更换预过滤网。"):
        mail = b"From: a@b.example\nSubject: x\n" + PLAIN % label + body.encode()
        assert body in parse(mail).text


@pytest.mark.parametrize(
    ("label", "codec"), [(b"gb2312", "gbk"), (b"iso-8859-1", "cp1252"), (b"utf-16", "utf-16")]
)
def test_a_label_that_agrees_is_believed(parse, label: bytes, codec: str) -> None:
    body = "水" if codec == "gbk" else "Höhe – “hoch”"
    head = (PLAIN % label).replace(b"\n\n", b"\nContent-Transfer-Encoding: base64\n\n")
    mail = b"From: a@b.example\nSubject: x\n" + head + b64encode(body.encode(codec))
    assert parse(mail).text.endswith(f"\n\n{body}")


@pytest.mark.parametrize("packing", [b"base64", b"7bit"])
def test_a_message_within_one_is_read_even_if_packed(parse, packing: bytes) -> None:
    inner = b"Subject: inner\n\ninner words"
    body = b64encode(inner) if packing == b"base64" else inner
    head = b"Content-Type: message/rfc822\nContent-Transfer-Encoding: %s\n\n" % packing
    text = parse(parts(b"mixed", b"\nouter words", head + body)).text
    assert text == "From: a@b.example\n\nouter words\n\nSubject: inner\n\ninner words"


def test_all_texts_of_the_alternative_that_is_shown_are_read(parse) -> None:
    page = b"Content-Type: text/html\n\n<p>%s</p>"
    attached = b"Content-Type: application/pdf; name=a.pdf\n\nx"
    several = parts(b"mixed", page % b"above", attached, page % b"below")
    rich = several.removeprefix(b"From: a@b.example\n")
    assert parse(parts(b"alternative", b"\n ", rich)).text == (
        "From: a@b.example\n\nabove\n\nbelow\n\nAttachments:\n- a.pdf"
    )
    plain = parse(parts(b"alternative", b"\nplain words", rich)).text
    assert plain == "From: a@b.example\n\nplain words\n\nAttachments:\n- a.pdf"
