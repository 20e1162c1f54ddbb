"""Paths to documents: folders, globs, zips, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from rag.core.errors import DocumentError, InvalidInputError
from rag.services.collect import Item, collect_items, zip_items


def names(*paths: Path | str) -> list[str]:
    return [item.name for item in collect_items(paths=[str(path) for path in paths])]


def content(item: Item) -> bytes:
    with item.open() as file:
        return file.read()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.md", ".hidden", "deep/c.txt", ".git/config", "deep/手册.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    return path


def test_a_folder_is_walked_in_order_without_hidden_files(folder: Path) -> None:
    assert names(folder) == ["a.md", "b.txt", "c.txt", "手册.txt"]


def test_a_file_and_a_glob_are_taken(folder: Path) -> None:
    assert names(folder / "a.md", folder / "**/*.txt") == ["a.md", "b.txt", "c.txt", "手册.txt"]


def test_a_path_that_matches_nothing_is_an_error(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="does not exist"):
        names(folder / "*.pdf")


def test_a_zip_is_opened_and_its_documents_read(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"d/a.txt": b"A", "b.txt": b"B", "__MACOSX/._b": b"x"})
    items = list(collect_items(paths=[str(path)]))
    assert [(item.name, item.size, content(item)) for item in items] == [
        ("a.txt", 1, b"A"),
        ("b.txt", 1, b"B"),
    ]


def test_a_document_that_is_a_zip_stays_whole(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.docx", {"[Content_Types].xml": b"", "word/document.xml": b""})
    assert zip_items(path=path, name="x.docx") is None
    assert names(path) == ["x.docx"]


def test_names_in_gbk_are_read(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"AAAA.txt": b"A"})
    data = path.read_bytes().replace(b"AAAA.txt", "手册".encode("gb18030") + b".txt")
    path.write_bytes(data)
    assert names(path) == ["手册.txt"]


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.txt": b"\0" * 50_000_000})
    with pytest.raises(DocumentError, match="would unpack to 1 files and 47 MB"):
        names(path)


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {f"{i}.txt": b"x" for i in range(5_001)})
    with pytest.raises(DocumentError, match="5001 files"):
        names(path)


def test_an_encrypted_member_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.txt": b"A"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    (item,) = collect_items(paths=[str(path)])
    with pytest.raises(DocumentError, match="needs a password"):
        item.open()


def test_a_zip_never_writes_outside(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"../../etc/evil.txt": b"A"})
    assert names(path) == ["evil.txt"]
