"""Files that attack or disappoint a reader: small on disk, large or wrong inside."""

from __future__ import annotations

import random
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO

MB = 1024**2
CONTENT_TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships'
    '+xml"/><Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
)
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml."
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATIONS = (
    '<?xml version="1.0" encoding="UTF-8"?><Relationships xmlns="http://schemas.openxmlformats.org'
    '/package/2006/relationships">{links}</Relationships>'
)
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    """Return a zip of the members."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members.items():
            bundle.writestr(name, content)
    return out.getvalue()


def with_members(data: bytes, members: Mapping[str, str | bytes]) -> bytes:
    """Return an Office package with further parts."""
    with zipfile.ZipFile(BytesIO(data)) as bundle:
        return zipped({**{name: bundle.read(name) for name in bundle.namelist()}, **members})


def package(main: str, kind: str, members: Mapping[str, str | bytes]) -> bytes:
    """Return an office package whose main part is ``main``, of content type ``kind``."""
    overrides = f'<Override PartName="/{main}" ContentType="{kind}"/>'
    link = f'<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="{main}"/>'
    return zipped(
        {
            "[Content_Types].xml": CONTENT_TYPES.format(overrides=overrides),
            "_rels/.rels": RELATIONS.format(links=link),
            **members,
        }
    )


def word_body(paragraphs: str) -> str:
    """Return a document part around paragraphs of WordprocessingML."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><w:document {_W}>'
        f"<w:body>{paragraphs}</w:body></w:document>"
    )


def paragraph(text: str, style: str = "", more: str = "") -> str:
    """Return a paragraph of WordprocessingML, in a style and with other properties."""
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return (
        f'<w:p><w:pPr>{named}{more}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'
    )


def docx(paragraphs: str, **parts: str) -> bytes:
    """Return a Word file; ``parts`` are further members of its ``word`` folder."""
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{OFFICE}/{part}" Target="{part}.xml"/>'
        for n, part in enumerate(parts, start=1)
    )
    members = {f"word/{part}.xml": content for part, content in parts.items()}
    return package(
        "word/document.xml",
        f"{_WORD}document.main+xml",
        {
            "word/document.xml": word_body(paragraphs),
            "word/_rels/document.xml.rels": RELATIONS.format(links=links),
            **members,
        },
    )


def deflated(block: bytes, times: int, *, is_zlib: bool = False) -> tuple[bytes, int, int]:
    """Return ``block * times`` deflated, its CRC and its size, compressing the block only once."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # A full flush forgets what came before, so the same bytes may follow again and again.
    piece = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    body = piece * times + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    crc = 0
    for _ in range(times):
        crc = zlib.crc32(block, crc)
    return (b"\x78\xda" + body if is_zlib else body), crc, len(block) * times


def docx_bomb(block: bytes, n_mb: int, *, claimed: int | None = None) -> bytes:
    """Return a Word file whose document part unpacks to ``n_mb`` MB, and may claim less."""
    body, crc, size = deflated((block * (MB // len(block) + 1))[:MB], n_mb)
    size = size if claimed is None else claimed
    ordinary = docx(paragraph("x"))
    # An ordinary file, with the large member in front and its directory moved behind it.
    name = b"word/big.xml"
    fields = (20, 0, 8, 0, 0, crc, len(body), size, len(name), 0)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, *fields) + name + body
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, *fields, 0, 0, 0, 0, 0) + name
    start = ordinary.rindex(b"PK\x05\x06")
    n_members, directory_size, directory_at = struct.unpack_from("<HII", ordinary, start + 10)
    directory = ordinary[directory_at:start]
    shifted, at = bytearray(directory), 0
    while at < len(directory):
        struct.pack_into(
            "<I", shifted, at + 42, struct.unpack_from("<I", directory, at + 42)[0] + len(local)
        )
        at += 46 + sum(struct.unpack_from("<HHH", directory, at + 28))
    end = struct.pack(
        "<IHHHHIIH",
        0x06054B50,
        0,
        0,
        n_members + 1,
        n_members + 1,
        directory_size + len(entry),
        directory_at + len(local),
        0,
    )
    return local + ordinary[:directory_at] + bytes(shifted) + entry + end


def laughs() -> bytes:
    """Return a Word file of ten nested entities: a gigabyte of laughter."""
    entities = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10)
    )
    body = word_body(paragraph("&a9;")).replace("?>", f"?><!DOCTYPE w:document [{entities}]>", 1)
    return package("word/document.xml", f"{_WORD}document.main+xml", {"word/document.xml": body})


def nested_tables(depth: int) -> bytes:
    """Return a Word file of tables within tables, one word in the innermost."""
    return docx(
        paragraph("before")
        + "<w:tbl><w:tr><w:tc>" * depth
        + paragraph("innermost")
        + "<w:p/></w:tc></w:tr></w:tbl>" * depth
    )


def pdf(objects: list[bytes], *, root: int = 1, header: bytes = b"%PDF-1.7\n") -> bytes:
    """Return a PDF of numbered objects with a right table of where they are."""
    out, places = bytearray(header), []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        root,
        start,
    )
    return bytes(out)


def stream(data: bytes, entries: bytes = b"") -> bytes:
    """Return a stream object."""
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), entries, data)


def text_pdf(
    pages: list[list[str]], *, catalog: bytes = b"", more: tuple[bytes, ...] = (), count: int = 0
) -> bytes:
    """Return a PDF of ASCII lines: pages are objects 4, 6, 8 ..., ``more`` follows after them."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog,
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count or len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F 3 0 R >> >> >>" % (5 + 2 * number)
        )
        shown = b"".join(b"(%s) Tj 0 -14 Td " % line.encode() for line in lines)
        objects.append(stream(b"BT /F 12 Tf 72 700 Td %sET" % shown))
    return pdf([*objects, *more])


def one_page(content: bytes, *, kids: bytes = b"4 0 R", count: int = 1) -> bytes:
    """Return a PDF of one page with the content stream object ``content``."""
    return pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
            content,
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 3 0 R >>",
        ]
    )


def flate_bomb(n_mb: int, layers: int = 1) -> bytes:
    """Return a PDF whose only content stream inflates to ``n_mb`` MB of drawing."""
    block = b"0 0 1 1 re f\n" * (MB // 13)
    data = deflated(block, n_mb, is_zlib=True)[0]
    for _ in range(layers - 1):
        data = zlib.compress(data, 9)
    filters = b"/Filter [%s]" % (b"/FlateDecode " * layers)
    return one_page(stream(data, filters))


def cyclic_pages() -> bytes:
    """Return a PDF whose page tree contains itself."""
    return pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 3 >>",
            b"<< /Type /Pages /Parent 2 0 R /Kids [2 0 R 3 0 R] /Count 3 >>",
        ]
    )


def cyclic_bookmarks() -> bytes:
    """Return a PDF of one page whose two bookmarks follow and contain each other."""
    mark = b"<< /Title (Pump) /Parent 6 0 R /Next %d 0 R /First %d 0 R /Dest [4 0 R /Fit] >>"
    return text_pdf(
        [["Pump", "A pump moves water from a low place to a high place."]],
        catalog=b"/Outlines 6 0 R",
        more=(
            b"<< /Type /Outlines /First 7 0 R /Last 8 0 R /Count 2 >>",
            mark % (8, 8),
            mark % (7, 7),
        ),
    )


def scan_page() -> bytes:
    """Return a PDF page that one grey image covers."""
    image = b"/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray "
    return pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            stream(b"q 612 0 0 792 0 0 cm /I Do Q"),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 3 0 R "
            b"/Resources << /XObject << /I 5 0 R >> >> >>",
            stream(b"\x80" * 64, image + b"/BitsPerComponent 8"),
        ]
    )


def ole(streams: Mapping[str, bytes]) -> bytes:
    """Return an OLE file: one directory sector, one allocation sector, streams of 4096 bytes."""
    table = [0xFFFFFFFD, 0xFFFFFFFE]  # This very table; then the directory.
    entries = [_entry("Root Entry", 5, 0xFFFFFFFE, 0)]
    body = b""
    for name, content in streams.items():
        content = content.ljust(4096, b"\0")[:4096]
        entries.append(_entry(name, 2, len(table), len(content)))
        table += [*range(len(table) + 1, len(table) + 8), 0xFFFFFFFE]
        body += content
    fat = struct.pack("<128I", *table, *[0xFFFFFFFF] * (128 - len(table)))
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    head += struct.pack("<109I", 0, *[0xFFFFFFFF] * 108)
    return head + fat + b"".join(entries).ljust(512, b"\0") + body


def _entry(name: str, kind: int, start: int, size: int) -> bytes:
    wide = name.encode("utf-16-le") + b"\0\0"
    links = struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 1 if kind == 5 else 0xFFFFFFFF)
    fields = struct.pack("<HBB", len(wide), kind, 1) + links + bytes(36)
    return wide.ljust(64, b"\0") + fields + struct.pack("<II4x", start, size)


def encrypted_doc() -> bytes:
    """Return a Word 97 file whose information block says that it is encrypted."""
    return ole({"WordDocument": struct.pack("<HHHHHH", 0xA5EC, 0xC1, 0, 0x409, 0, 0x0100)})


def recipes() -> Iterator[tuple[str, bytes, str]]:
    """Yield (name, bytes, a part of what people must be told) of each file to be refused."""
    line = paragraph("lorem ipsum dolor sit amet").encode()
    readable = text_pdf([["A pump moves water from a low place to a high place."] * 20] * 3)
    noise = random.Random(4).randbytes(2 * MB)
    yield "text-bomb.docx", docx_bomb(line, 400), "would unpack to"
    yield "space-bomb.docx", docx_bomb(b" ", 400), "would unpack to"
    yield "lying-bomb.docx", docx_bomb(line, 400, claimed=1000), "is damaged"
    yield "laughs.docx", laughs(), "declares entities"
    yield "many.docx", zipped({f"m{n}": b"" for n in range(8000)}), "is a zip, not a document"
    yield "plain.docx", zipped({"a.txt": "text", "../b.txt": "x"}), "is a zip, not a document"
    yield "half.docx", docx(paragraph("x"))[:300], "is damaged"
    yield "half.pdf", readable[: len(readable) // 3], "is damaged"
    yield "cyclic.pdf", cyclic_pages(), "“cyclic.pdf”"
    yield "many.pdf", one_page(stream(b""), kids=b"4 0 R " * 100_000, count=100_000), "100000 pages"
    yield "scan.pdf", scan_page(), "has no text layer: its pages are images"
    yield "blank.pdf", text_pdf([[""], [""]]), "holds no text"
    yield "secret.doc", encrypted_doc(), "needs a password"
    yield "secret.docx", ole({"EncryptionInfo": b"\4", "EncryptedPackage": b"x"}), "a password"
    yield "secret.xlsx", ole({"EncryptedPackage": noise[:4096]}), "needs a password"
    yield "old.xls", ole({"Workbook": noise[:4096]}), "damaged"
    yield "noise.doc", ole({"WordDocument": b"\xec\xa5" + noise[:4000]})[:2000], "“noise.doc”"
    yield "empty.txt", b"", "is empty"
    yield "spaces.txt", b" \n\t" * 40_000, "holds no text"
    yield "nul.txt", bytes(10 * MB), "is binary"
    yield "noise.txt", noise, "is binary"
    yield "noise.pdf", noise, "is binary"
    yield "photo.txt", b"\xff\xd8\xff\xe0" + noise[:5000], "is an image"
    yield "photo.pdf", b"\x89PNG\r\n\x1a\n" + noise[:5000], "is an image"
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    yield "pointer.pdf", pointer, "Git LFS pointer"
