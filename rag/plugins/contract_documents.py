"""Contracts of parsers and splitters. A subclass named ``Test…`` sets ``plugin``, and hooks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rag.core.documents import KINDS, Block, ChunkRule, ParsedDocument
from rag.core.errors import DocumentError
from rag.plugins.contract_plugin import PluginContract, odd_texts
from rag.stages.chunking.chunk import chunk_document

_TEXT = (
    "# Pumps\n\nThe pump is serviced every 30 days. 每三十天保养一次。\n\n"
    + "A long paragraph goes on and on, with commas, and words of several letters. " * 60
    + "\n\n## Cakes\n\n"
    + "蛋糕要烤四十分钟。" * 200
)


class WordTokenizer:
    """Counts Latin words and single other characters, as a stand-in for a model's tokenizer."""

    id = "words"
    _token = re.compile(r"[A-Za-z0-9]+|[^\x00-\x7f\s]|[^\sA-Za-z0-9]")

    def count(self, text: str) -> int:
        """Return the number of tokens."""
        return len(self.offsets(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return their places."""
        return [match.span() for match in self._token.finditer(text)]


class ParserContract(PluginContract):
    """A file to a document. To be set: ``plugin``, and ``example()``, the bytes of a file."""

    kind = "parser"

    def example(self) -> bytes:
        """Return a file that can be read."""
        raise NotImplementedError("Return the bytes of a file.")

    def parse(self, path: Path, content: bytes) -> ParsedDocument:
        """Return what the plugin makes of a file, named by the first of its kinds."""
        suffix = self.plugin.kinds[0]
        kind = "txt" if suffix.startswith(".") else suffix
        name = f"file{suffix}" if suffix.startswith(".") else f"file.{suffix}"
        path.joinpath("content").write_bytes(content)
        found: ParsedDocument = self.make().parse(
            path / "content", name=name, kind=kind, encoding=""
        )
        return found

    def test_it_reads_kinds_or_suffixes(self) -> None:
        kinds = self.plugin.kinds
        assert kinds and all(one in KINDS or re.fullmatch(r"\.[a-z0-9]+", one) for one in kinds)

    def test_a_file_becomes_text_with_blocks_and_pages_in_it(self, tmp_path: Path) -> None:
        found = self.parse(tmp_path, self.example())
        assert found.text.strip() and found.parser
        places = [(block.start, block.end) for block in found.blocks]
        places += [(page.start, page.end) for page in found.pages]
        assert all(0 <= start <= end <= len(found.text) for start, end in places)
        assert found == self.parse(tmp_path, self.example())

    def test_damage_is_an_error_for_people_or_some_text(self, tmp_path: Path) -> None:
        content = self.example()
        for damaged in (b"", b"\xff\xfe\x00\x80" * 50, content[: len(content) // 2]):
            try:
                assert isinstance(self.parse(tmp_path, damaged), ParsedDocument)
            except DocumentError as refusal:
                assert str(refusal)

    def test_its_module_needs_no_django(self) -> None:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; import {self.plugin.__module__}\n"
            "assert 'django' not in sys.modules, 'Django is imported'"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


class SplitterContract(PluginContract):
    """All text in chunks that fit the rule. To be set: ``plugin``."""

    kind = "splitter"

    def documents(self) -> list[ParsedDocument]:
        """Return what is cut."""
        end = _TEXT.index("\n")
        heading = (Block("heading", 0, end, 1),)
        texts = [text for text in odd_texts() if text.strip()]
        return [
            ParsedDocument("md", _TEXT, "plain/3", (), heading),
            *(ParsedDocument("txt", text, "plain/3") for text in texts),
        ]

    def test_all_text_is_in_one_own_part(self) -> None:
        for document in self.documents():
            done = 0
            for chunk in chunk_document(
                document, ChunkRule(50, 10), WordTokenizer(), (), self.make()
            ):
                assert chunk.text == document.text[chunk.char_start : chunk.char_end]
                assert chunk.char_start <= chunk.own_start < chunk.char_end
                assert not document.text[done : chunk.own_start].strip(), "text is lost"
                assert chunk.own_start >= done, "text is in two own parts"
                done = chunk.char_end
            assert not document.text[done:].strip(), "the end is lost"

    def test_chunks_fit_the_rule(self) -> None:
        for rule in (ChunkRule(50, 0), ChunkRule(200, 20)):
            document = self.documents()[0]
            for chunk in chunk_document(document, rule, WordTokenizer(), (), self.make()):
                assert WordTokenizer().count(chunk.text) <= rule.max_tokens
                assert chunk.token_count == WordTokenizer().count(chunk.text)

    def test_edited_chunks_are_left_alone(self) -> None:
        document = self.documents()[0]
        first = next(iter(chunk_document(document, ChunkRule(), WordTokenizer(), (), self.make())))
        holes = [(first.own_start, first.char_end)]
        rest = chunk_document(document, ChunkRule(), WordTokenizer(), holes, self.make())
        assert all(chunk.char_start >= first.char_end for chunk in rest)

    def test_equal_documents_are_cut_alike(self) -> None:
        document = self.documents()[0]
        made = [
            list(chunk_document(document, ChunkRule(), WordTokenizer(), (), self.make()))
            for _ in range(2)
        ]
        assert made[0] == made[1]
