"""Folders, globs and zips as documents, and what is passed over or refused."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import DocumentError, InvalidInputError
from rag.services.files import archives as bundle
from rag.services.files.archives import UploadItem, collect_items, zip_items


def names(*paths: Path | str) -> list[str]:
    return [item.name for item in collect_items(paths=[str(path) for path in paths])]


def content(item: UploadItem) -> bytes:
    with item.open() as stream:
        return stream.read()


def write(path: Path, text: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_zip(path: Path, members: dict[str, bytes], kind: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", kind) as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return path


def raw_name(path: Path, ascii_name: str, name: bytes) -> Path:
    """Put other bytes of the same length in place of a member's name."""
    assert len(ascii_name) == len(name)
    path.write_bytes(path.read_bytes().replace(ascii_name.encode(), name))
    return path


def set_flag(path: Path, bit: int) -> Path:
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(signature)
        while at >= 0:
            (flags,) = struct.unpack_from("<H", data, at + offset)
            struct.pack_into("<H", data, at + offset, flags | bit)
            at = data.find(signature, at + 4)
    path.write_bytes(bytes(data))
    return path


def test_a_file_is_one_document(tmp_path: Path) -> None:
    path = write(tmp_path / "手册 1.txt", "内容")
    (item,) = collect_items(paths=[str(path)])
    assert (item.name, item.size, content(item)) == ("手册 1.txt", 6, "内容".encode())


def test_a_folder_is_walked_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/2.txt", "a/1.txt", ".hidden", ".git/config", "a/.DS_Store"):
        write(tmp_path / name)
    assert names(tmp_path) == ["b.txt", "1.txt", "2.txt"]
    assert names(tmp_path / ".hidden") == [".hidden"]


def test_an_empty_folder_has_no_documents(tmp_path: Path) -> None:
    assert names(tmp_path) == []


def test_a_glob_is_matched_and_a_name_that_looks_like_one_is_a_name(tmp_path: Path) -> None:
    for name in ("a.txt", "b.md", "deep/er/c.txt", "[1].txt"):
        write(tmp_path / name)
    assert names(tmp_path / "*.md") == ["b.md"]
    assert names(tmp_path / "**" / "*.txt") == ["[1].txt", "a.txt", "c.txt"]
    assert names(tmp_path / "[1].txt") == ["[1].txt"]


def test_a_path_given_twice_is_taken_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt")
    assert names(path, path, tmp_path / "*.txt") == ["a.txt"]


@pytest.mark.parametrize("path", ["missing.txt", "*.none", "a\0b", "x" * 5000, ""])
def test_a_path_that_matches_nothing_is_an_error_before_anything_is_read(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path / "folder" / "a.txt").parent)
    wanted = path
    if path == "":
        # The empty path is the current folder for pathlib, so it is no error.
        assert names(path) == ["a.txt"]
        return
    with pytest.raises(InvalidInputError, match="does not exist"):
        collect_items(paths=["a.txt", wanted])


def test_special_files_and_broken_links_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    (tmp_path / "round").symlink_to(tmp_path)
    assert names(tmp_path) == ["a.txt"]
    assert names(tmp_path / "pipe") == []


def test_an_unreadable_file_says_so_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.txt")
    write(tmp_path / "b.txt")
    opened = Path.open

    def deny(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name == "a.txt":
            raise PermissionError(13, "Permission denied")
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", deny)
    first, second = collect_items(paths=[str(tmp_path)])
    with pytest.raises(DocumentError, match=r"“a.txt” cannot be read: Permission denied"):
        first.open()
    assert content(second) == b"text"


def test_a_file_that_vanishes_meanwhile_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt")
    (item,) = collect_items(paths=[str(path)])
    path.unlink()
    with pytest.raises(DocumentError, match="No such file"):
        item.open()


def test_a_zip_is_opened_without_hidden_members(tmp_path: Path) -> None:
    path = make_zip(
        tmp_path / "all.zip",
        {
            "a.txt": b"A",
            "deep/b.txt": b"B",
            ".DS_Store": b"",
            "__MACOSX/._a.txt": b"",
            ".git/config": b"",
            "empty/": b"",
            "../../etc/c.txt": b"C",
            "/abs/d.txt": b"D",
        },
    )
    items = list(collect_items(paths=[str(path)]))
    assert [item.name for item in items] == ["a.txt", "deep/b.txt", "etc/c.txt", "abs/d.txt"]
    assert [content(item) for item in items] == [b"A", b"B", b"C", b"D"]
    assert [item.size for item in items] == [1, 1, 1, 1]


def test_a_zip_in_a_folder_is_opened_too(tmp_path: Path) -> None:
    make_zip(tmp_path / "b.zip", {"inside.txt": b"x"})
    write(tmp_path / "a.txt")
    assert names(tmp_path) == ["a.txt", "inside.txt"]


@pytest.mark.parametrize("encoding", ["gb18030", "utf-8"])
def test_names_written_without_saying_their_encoding_are_read(
    encoding: str, tmp_path: Path
) -> None:
    name = "员工手册.txt".encode(encoding)
    plain = "x" * len(name)
    path = raw_name(make_zip(tmp_path / "a.zip", {plain: b"text"}), plain, name)
    (item,) = collect_items(paths=[str(path)])
    assert (item.name, content(item)) == ("员工手册.txt", b"text")


def test_names_with_backslashes_are_paths(tmp_path: Path) -> None:
    path = raw_name(make_zip(tmp_path / "a.zip", {"dir/a.txt": b"x"}), "dir/a.txt", b"dir\\a.txt")
    assert names(path) == ["dir/a.txt"]


@pytest.mark.parametrize(
    ("member", "name"),
    [
        ("../../etc/passwd.txt", "etc/passwd.txt"),
        ("/etc//passwd.txt", "etc/passwd.txt"),
        ("//server/share/a.txt", "server/share/a.txt"),
        ("C:/Windows/a.txt", "Windows/a.txt"),
        ("C:a.txt", "a.txt"),
        ("a/./b/../c.txt", "a/b/c.txt"),
        ("x/..", "x"),
        ("..", None),
        (".hidden/a.txt", None),
    ],
)
def test_no_name_leads_out_of_the_zip(member: str, name: str | None, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {member: b"x"})
    assert names(path) == ([] if name is None else [name])


def test_a_name_with_a_nul_ends_there(tmp_path: Path) -> None:
    path = raw_name(make_zip(tmp_path / "a.zip", {"a.txtx.sh": b"x"}), "a.txtx.sh", b"a.txt\0.sh")
    assert names(path) == ["a.txt"]


def test_two_files_of_one_name_are_two_documents(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"a/README.md": b"A", "b/README.md": b"B"})
    found = {item.name: content(item) for item in collect_items(paths=[str(path)])}
    assert found == {"a/README.md": b"A", "b/README.md": b"B"}


def test_ten_thousand_entries_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {f"{n}.txt": b"x" for n in range(10_000)})
    with pytest.raises(DocumentError, match="would unpack to 10000 files"):
        zip_items(path=path, name="a.zip")


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("invoice.ofd", ["OFD.xml", "Doc_0/Document.xml"]),
        ("map.xmind", ["content.json", "metadata.json", "manifest.json"]),
        ("a.zip", ["content.json", "metadata.json"]),
        ("text.pages", ["Index/Document.iwa", "Metadata/Properties.plist"]),
        ("library.jar", ["META-INF/MANIFEST.MF", "readme.txt"]),
    ],
)
def test_documents_of_other_programs_are_not_unpacked(
    name: str, entries: list[str], tmp_path: Path
) -> None:
    path = make_zip(tmp_path / name, dict.fromkeys(entries, b"x"))
    assert zip_items(path=path, name=name) is None
    assert names(path) == [name]


@pytest.mark.parametrize("member", ["[Content_Types].xml", "mimetype"])
def test_an_office_file_or_epub_is_a_document_not_a_bundle(member: str, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.docx", {member: b"x", "word/document.xml": b"<w/>"})
    assert zip_items(path=path, name="a.docx") is None
    assert names(path) == ["a.docx"]


def test_a_pdf_with_a_zip_behind_it_is_no_bundle(tmp_path: Path) -> None:
    packed = make_zip(tmp_path / "a.zip", {"a.txt": b"x"}).read_bytes()
    path = tmp_path / "b.pdf"
    path.write_bytes(b"%PDF-1.7\n" + packed)
    assert names(path) == ["b.pdf"]


@pytest.mark.parametrize("data", [b"PK\x03\x04 broken", b"PK", b"PK\x05\x06" + b"\xff" * 18])
def test_a_broken_zip_is_left_to_the_parser(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    (item,) = collect_items(paths=[str(path)])
    assert (item.name, content(item)) == ("a.zip", data)


def test_a_bomb_is_refused_and_the_next_file_taken(tmp_path: Path) -> None:
    bomb = make_zip(tmp_path / "a.zip", {"zero.txt": b"0" * 20_000_000}, zipfile.ZIP_DEFLATED)
    write(tmp_path / "b.txt")
    with pytest.raises(DocumentError, match=r"“a.zip” would unpack to 1 files and 19 MB"):
        zip_items(path=bomb, name="a.zip")
    first, second = collect_items(paths=[str(tmp_path)])
    with pytest.raises(DocumentError, match="would unpack"):
        first.open()
    assert content(second) == b"text"


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_MEMBERS", 3)
    path = make_zip(tmp_path / "a.zip", {f"{n}.txt": b"x" * 900 for n in range(4)})
    with pytest.raises(DocumentError, match="would unpack to 4 files"):
        zip_items(path=path, name="a.zip")


def test_a_member_with_a_password_is_refused_and_the_others_taken(tmp_path: Path) -> None:
    path = set_flag(make_zip(tmp_path / "a.zip", {"secret.txt": b"x"}), 0x1)
    (item,) = collect_items(paths=[str(path)])
    with pytest.raises(DocumentError, match=r"“secret.txt” in the zip needs a password"):
        item.open()


def test_a_member_over_the_limit_is_refused(tmp_path: Path, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "MAX_FILE_BYTES": 1024**2}
    path = make_zip(tmp_path / "a.zip", {"big.txt": os.urandom(1024**2 + 1), "small.txt": b"x"})
    big, small = collect_items(paths=[str(path)])
    with pytest.raises(DocumentError, match=r"“big.txt” in the zip is larger than 1 MB"):
        big.open()
    assert content(small) == b"x"


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_member_is_told_while_it_is_read(kind: int, tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.txt": os.urandom(5000)}, kind)
    data = bytearray(path.read_bytes())
    data[1000:1100] = bytes(100)
    path.write_bytes(bytes(data))
    (item,) = collect_items(paths=[str(path)])
    with pytest.raises(DocumentError, match=r"“a.txt” in the zip is damaged"):
        content(item)


def test_an_unknown_compression_is_told(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.txt": b"x"})
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        struct.pack_into("<H", data, data.find(signature) + offset, 97)
    path.write_bytes(bytes(data))
    (item,) = collect_items(paths=[str(path)])
    with pytest.raises(DocumentError, match="damaged"):
        content(item)


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_is_told_however_it_is_packed(tmp_path: Path, kind: int) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.txt": b"one two three " * 400, "b.txt": b"fine"}, kind)
    data = bytearray(path.read_bytes())
    packed = zipfile.ZipFile(path).getinfo("a.txt").compress_size
    # Behind the local header, its name, and what says how it is packed.
    data[30 + 5 + 9 : 30 + 5 + packed] = b"\xa5" * (packed - 9)
    path.write_bytes(bytes(data))
    bad, fine = collect_items(paths=[str(path)])
    with pytest.raises(DocumentError, match="“a.txt” in the zip is damaged"):
        content(bad)
    assert content(fine) == b"fine"


def test_a_member_with_another_name_at_its_place_is_told(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"é.txt": b"text"})
    data = path.read_bytes()
    # The first of both places: the list at the end still says what it did.
    path.write_bytes(data.replace("é".encode(), b"\xff\xff", 1))
    (item,) = collect_items(paths=[str(path)])
    with pytest.raises(DocumentError, match="in the zip is damaged"):
        content(item)
