"""Code and logs in chunks: whole where they fit, cut at functions and lines where they do not."""

from __future__ import annotations

import random
from pathlib import Path

from rag.core.documents import Chunk, ChunkRule, ParsedDocument
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.stages.chunking.chunk import chunk_document
from rag.stages.parse import parse_document

TOKENIZER = E5Tokenizer()


def parsed(folder: Path, text: str, name: str) -> ParsedDocument:
    path = folder / "upload"
    path.write_text(text, encoding="utf-8")
    return parse_document(path, name)


def chunks_of(document: ParsedDocument, size: int = 200) -> list[Chunk]:
    return list(chunk_document(document, ChunkRule(size, 20), TOKENIZER))


def function(name: str, n_lines: int) -> str:
    body = "\n".join(f"    total_{n} = read({n}). Then = {n}" for n in range(n_lines))
    return f"def {name}():\n{body}\n    return 1"


def test_fences_that_fit_are_in_one_chunk(tmp_path: Path) -> None:
    rng = random.Random(5)
    fences, parts = [], []
    for n in range(30):
        prose = " ".join(f"Step {i} of {n} opens the valve." for i in range(rng.randint(1, 14)))
        fence = f"```python\n{function(f'f{n}', rng.randint(2, 8))}\n```"
        fences.append(fence)
        parts += [f"## Part {n}", prose, fence]
    document = parsed(tmp_path, "\n\n".join(parts), "a.md")
    chunks = chunks_of(document)
    cut = [f for f in fences if TOKENIZER.count(f) <= 190 and not any(f in c.text for c in chunks)]
    assert cut == []
    assert all(c.text.count("```") % 2 == 0 for c in chunks)


def test_a_program_is_cut_between_its_functions(tmp_path: Path) -> None:
    functions = [function(f"f{n}", 5) for n in range(12)]
    chunks = chunks_of(parsed(tmp_path, "\n\n\n".join(functions) + "\n", "tools.py"))
    assert len(chunks) > 3
    for one in functions:
        assert any(one in chunk.text for chunk in chunks)
    assert {chunk.block_kinds for chunk in chunks} == {("code",)}


def test_a_function_that_is_too_long_is_cut_between_lines(tmp_path: Path) -> None:
    text = function("f", 60) + "\n"
    for chunk in chunks_of(parsed(tmp_path, text, "tools.py")):
        own = chunk.text[chunk.own_start - chunk.char_start :]
        assert all(line.strip() in map(str.strip, text.split("\n")) for line in own.split("\n"))


def test_lines_of_a_log_are_whole(tmp_path: Path) -> None:
    lines = [
        f"2026-11-29 12:00:{n % 60:02d},123 ERROR pump: It stopped. Valve {n} is shut! Call 9."
        for n in range(80)
    ]
    chunks = chunks_of(parsed(tmp_path, "\n".join(lines), "server.log"))
    assert len(chunks) > 5
    for chunk in chunks:
        assert set(chunk.text.split("\n")) <= set(lines)


def test_prose_with_a_few_times_is_no_log(tmp_path: Path) -> None:
    text = "".join(f"The pump runs. It is {n} o'clock.\n" for n in range(20))
    assert parsed(tmp_path, text + "12:00:00 end\n", "a.txt").blocks == ()
