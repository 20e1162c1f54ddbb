"""Tables of thousands of columns and forms of thousands of fields: bounded, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from rag.stages.parse import parse_document
from tests import hostile_files

N_COLUMNS, N_FIELDS = 5_000, 10_000


def wide_csv() -> bytes:
    head, row = (",".join(f"{kind}{n}" for n in range(N_COLUMNS)) for kind in ("name", "v"))
    return f"{head}\n{row}\n".encode()


def wide_page() -> bytes:
    rows = ("".join(f"<td>{kind}{n}" for n in range(N_COLUMNS)) for kind in ("name", "v"))
    return f"<!doctype html><table>{''.join(f'<tr>{row}' for row in rows)}</table>".encode()


def wide_word() -> bytes:
    rows = (
        "".join(f"<w:tc>{hostile_files.paragraph(f'{kind}{n}')}</w:tc>" for n in range(N_COLUMNS))
        for kind in ("name", "v")
    )
    return hostile_files.docx(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>")


@pytest.mark.parametrize(
    ("name", "made"), [("a.csv", wide_csv), ("a.html", wide_page), ("a.docx", wide_word)]
)
def test_a_table_of_five_thousand_columns_keeps_its_cells(tmp_path: Path, name: str, made) -> None:
    path = tmp_path / "upload"
    path.write_bytes(made())
    begun = process_time()
    text = parse_document(path, name).text
    assert process_time() - begun < 5
    assert "v0" in text and f"v{N_COLUMNS // 2}" in text and f"v{N_COLUMNS - 1}" in text


def test_a_form_of_ten_thousand_fields_keeps_its_ticks(tmp_path: Path) -> None:
    field = (
        '<w:p><w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:checked/></w:checkBox>'
        "</w:ffData></w:fldChar></w:r><w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r><w:r>"
        '<w:fldChar w:fldCharType="end"/></w:r><w:r><w:t> part {n}</w:t></w:r></w:p>'
    )
    path = tmp_path / "upload"
    body = "".join(field.replace("{n}", str(n)) for n in range(N_FIELDS))
    path.write_bytes(hostile_files.docx(body))
    begun = process_time()
    text = parse_document(path, "a.docx").text
    assert process_time() - begun < 10
    assert text.count("☒ part") == N_FIELDS
