"""Names of zip entries in each code page that tools write without saying so."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from rag.stages.detect.entry_names import entry_names
from tests.unit.files.test_collect import make_zip, raw_name

CASES = Path(__file__).parents[4] / "shared" / "cases"


def packed(path: Path, *names: bytes) -> list[str]:
    plain = {f"{n}{'x' * (len(name) - 1)}": name for n, name in enumerate(names)}
    make_zip(path, dict.fromkeys(plain, b"text"))
    for key, name in plain.items():
        raw_name(path, key, name)
    with zipfile.ZipFile(path) as bundle:
        return entry_names(bundle.infolist())


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("cp437", ["Übersicht.txt", "Größe und Maß.md", "résumé.txt", "año.txt"]),
        ("cp850", ["Übersicht.txt", "ação.txt", "Ísafjörður.md", "Fußgänger Nr. 5.txt"]),
        ("cp850", ["Übersicht.txt"]),
        ("cp1252", ["Übersicht.txt", "Größe.md"]),
        ("big5", ["測試檔案.txt", "會議記錄/第一次.md"]),
        ("big5", ["停車場說明.txt"]),
        ("gb18030", ["员工手册.txt", "会议纪要/第一次.md"]),
        ("gb18030", ["报价单.xlsx"]),
        ("gb18030", ["龙.txt"]),
        ("utf-8", ["员工手册.txt", "測試.md", "Übersicht.txt"]),
        ("ascii", ["readme.txt"]),
    ],
)
def test_names_come_out_right_in_each_code_page(
    encoding: str, names: list[str], tmp_path: Path
) -> None:
    assert packed(tmp_path / "a.zip", *(name.encode(encoding) for name in names)) == names


def test_a_name_in_utf_8_beside_the_other_one_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    name = "手册.txt".encode()
    entry = zipfile.ZipInfo("x.txt")
    entry.extra = b"\x75\x70" + (5 + len(name)).to_bytes(2, "little") + b"\1\0\0\0\0" + name
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr(entry, b"text")
    with zipfile.ZipFile(path) as bundle:
        assert entry_names(bundle.infolist()) == ["手册.txt"]


def test_bytes_that_are_no_name_at_all_are_read(tmp_path: Path) -> None:
    (name,) = packed(tmp_path / "a.zip", b"\xff\xfe\x81\x20.txt")
    assert name.endswith(".txt")


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("big5.zip", ["測試檔案.txt"]),
        ("german.zip", ["Übersicht.txt", "Größe und Maß.md", "résumé.txt"]),
        ("two_readmes.zip", ["a/README.md", "b/README.md"]),
    ],
)
def test_the_shared_cases(case: str, names: list[str]) -> None:
    path = CASES / case
    if not path.exists():
        pytest.skip("the shared cases are not here")
    with zipfile.ZipFile(path) as bundle:
        assert entry_names(bundle.infolist()) == names
