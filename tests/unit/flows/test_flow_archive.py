"""Flows as zips and as texts by path: what goes in comes out, and what is none is refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.flows.definition.archive import (
    MAX_BYTES,
    MAX_FILES,
    FlowFiles,
    files_from_texts,
    files_to_texts,
    read_flow_folder,
    read_flow_zip,
    write_flow_zip,
)
from rag.core.errors import InvalidInputError, NotFoundError, RAGError

NAMES = st.from_regex(r"[a-z中]{1,8}(/[a-z]{1,5}){0,2}\.(md|txt)", fullmatch=True).filter(
    lambda name: not name.startswith("documents/")
)
KEPT = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
TEXTS = st.text(KEPT, max_size=200).filter(lambda text: not text.startswith("\ufeff"))


@given(TEXTS, st.dictionaries(NAMES, TEXTS, max_size=5))
def test_what_is_written_is_read_again(yaml: str, prompts: dict[str, str]) -> None:
    files = FlowFiles(yaml, prompts)
    assert read_flow_zip(write_flow_zip(files)) == files == files_from_texts(files_to_texts(files))
    assert (
        write_flow_zip(files) == write_flow_zip(FlowFiles(yaml, dict(reversed(prompts.items()))))
        or len(prompts) > 1
    )


@given(st.binary(max_size=300))
def test_bytes_that_are_no_zip_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInputError):
        read_flow_zip(raw)


@given(st.integers(0, 2**32), st.integers(0, 10_000))
def test_a_damaged_zip_is_refused_or_read_never_more(seed: int, place: int) -> None:
    raw = bytearray(write_flow_zip(FlowFiles("name: x\n" * 50, {"a.md": "text " * 50})))
    raw[place % len(raw)] ^= 1 + seed % 255
    try:
        read_flow_zip(bytes(raw))
    except RAGError as error:
        assert str(error)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_text_is_told_however_it_is_packed(method: int) -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        archive.writestr("flow.yaml", "name: x\n" * 50)
    raw = bytearray(written.getvalue())
    begin = raw.index(b"flow.yaml") + len("flow.yaml") + 12
    raw[begin : begin + 20] = bytes(byte ^ 0xFF for byte in raw[begin : begin + 20])
    with pytest.raises(InvalidInputError, match="The archive cannot be read"):
        read_flow_zip(bytes(raw))


def zipped(**texts: str | bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name.replace("__", "/"), text)
    return written.getvalue()


def test_a_flow_may_lie_in_the_one_folder_of_a_zip() -> None:
    raw = zipped(
        **{
            "top__flow.yaml": "name: x",
            "top__p.md": "a",
            "top__documents__d.md": "b",
            "top__cases.yaml": "c",
            "other.md": "d",
            "top__old__flow.yaml": "e",
        }
    )
    assert read_flow_zip(raw) == FlowFiles("name: x", {"p.md": "a"})


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(InvalidInputError, match="bytes"):
        read_flow_zip(zipped(**{"flow.yaml": b"0" * (MAX_BYTES + 1)}))
    many = {"flow.yaml": "x", **{f"{n}.md": "x" for n in range(MAX_FILES + 1)}}
    with pytest.raises(InvalidInputError, match=f"more than {MAX_FILES} texts"):
        read_flow_zip(zipped(**many))
    with pytest.raises(InvalidInputError, match=f"more than {MAX_FILES} texts"):
        files_from_texts(many)


@pytest.mark.parametrize("name", ["../a.md", "/a.md", "a\\b.md", "a.yaml", "a\0.md", "./../a.md"])
def test_paths_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be the path of a prompt"):
        files_from_texts({"flow.yaml": "x", name: "y"})


def test_without_a_flow_there_is_none() -> None:
    with pytest.raises(NotFoundError):
        files_from_texts({"a.md": "x"})
    with pytest.raises(InvalidInputError, match="has 500001 bytes"):
        files_from_texts({"flow.yaml": "x" * (MAX_BYTES + 1)})


def test_the_same_flow_is_the_same_texts_whichever_way_it_comes(tmp_path: Path) -> None:
    raw = {"flow.yaml": "\ufeffname: x\r\n# 往返\r\n", "p.md": "\ufeff一\r\n二\r三\n"}
    plain = FlowFiles("name: x\n# 往返\n", {"p.md": "一\n二\n三\n"})
    for name, text in raw.items():
        (tmp_path / name).write_bytes(text.encode())
    assert read_flow_folder(tmp_path) == plain
    assert read_flow_zip(zipped(**{name: text.encode() for name, text in raw.items()})) == plain
    assert files_from_texts(raw) == plain


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_names_of_old_tools_are_read_as_they_were_written(encoding: str) -> None:
    class Old(zipfile.ZipInfo):
        def _encodeFilenameFlags(self) -> tuple[bytes, int]:
            return self.filename.encode(encoding), self.flag_bits & ~0x800

    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in (("流程/flow.yaml", "name: x"), ("流程/提示.md", "a")):
            archive.writestr(Old(name), text)
    assert read_flow_zip(written.getvalue()) == FlowFiles("name: x", {"提示.md": "a"})
