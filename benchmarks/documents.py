"""Documents benchmark: tables, running heads and page breaks of PDFs, Word tables, workbooks.

Run ``python -m benchmarks.documents [--shared DIR]``. The made-up documents are drawn by code and
seeds that nothing was tuned on; the cases are those of the shared folder, where it is at hand.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.office_documents import (
    FIRST_SEED as FIRST_OFFICE_SEED,
)
from benchmarks.office_documents import (
    ShownSheet,
    WordTable,
    shown_sheet,
    table_rows,
    told_values,
    word_table,
)
from benchmarks.record import Report
from rag.core.documents import Block, Chunk, ChunkRule, ParsedDocument
from rag.core.errors import RAGError
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.stages.chunking.chunk import chunk_document
from rag.stages.citing.locate import locate_quote
from rag.stages.parse import parse_document
from rag.stages.text.normalize import normalize_quote
from tests.pdf_pages import HEIGHT, Drawn, Rule, Text, cells, drawn_pdf, grid, lines, text_width

SHARED = Path("../shared")
STYLES = ("grid", "rows", "heads", "none")
N_DOCUMENTS, FIRST_SEED = 12, 9100
HEAD_TEXT, FOOT_TEXT = "Northern Water Works, Handbook of Operation", "Page {page} of {n_pages}"
TERMINAL, CLOSING = ".!?。！？…:：;；", "”’」』）》】〉〕］\"')]"
_NOUNS = ["pump", "valve", "filter", "tank", "seal", "gasket", "motor", "sensor", "hose", "meter"]
_VERBS = ["checks", "cleans", "replaces", "opens", "closes", "lifts", "moves", "signs"]


@dataclass
class MadeUp:
    """A drawn document with what it says: its table's rows, and sentences that pages break."""

    data: bytes
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def table_document(seed: int, style: str) -> MadeUp:
    """Return a document whose table goes over pages, with its header on each or once."""
    rng = random.Random(seed)
    names = ["Code", "Article", "Stock", "Price", "Site"][: rng.randint(3, 5)]
    step, size = rng.choice([14, 17, 21]), rng.choice([8, 9, 10, 11])
    xs = [rng.randint(45, 70)]
    for width in (80, 150, 70, 80, 60):
        xs.append(xs[-1] + width)
    right = [at for at, name in enumerate(names) if name in ("Stock", "Price")]
    rows = [[_cell(rng, name) for name in names] for _ in range(rng.randint(60, 110))]
    is_repeated, on_page = rng.random() < 0.5, int(620 / step)
    pages: list[list[Drawn]] = []
    for first in range(0, len(rows), on_page):
        shown = rows[first : first + on_page]
        shown = [names, *shown] if is_repeated or not first else shown
        top = 720 if first else 690
        ends = [x + 40 if at in right else x for at, x in enumerate(xs)]
        page = [*cells(shown, ends, top, step=step, right=right, size=size)]
        page += _strokes(
            style, xs[: len(names) + 1], [top + size + 1 - step * n for n in range(len(shown) + 1)]
        )
        if not first:
            page += lines([_sentence(rng) for _ in range(3)], top=770)
        pages.append(page)
    return MadeUp(_with_margins(pages), names, rows)


def prose_document(seed: int, n_columns: int) -> MadeUp:
    """Return pages of prose whose last sentences go on over the page."""
    rng = random.Random(seed)
    width = (500 - 20 * (n_columns - 1)) / n_columns
    words = " ".join(_sentence(rng) for _ in range(220 // n_columns)).split()
    pages: list[list[Drawn]] = []
    ends: list[int] = []
    at = 0
    while at < len(words):
        page: list[Drawn] = []
        for column in range(n_columns):
            texts, at = _wrapped(words, at, width, 48)
            page += lines(texts, x=50 + column * (width + 20), top=760, step=14)
        pages.append(page)
        ends.append(at)
    return MadeUp(_with_margins(pages), broken=[*_sentences_at(words, ends[:-1])])


def fenced_text(seed: int) -> tuple[str, list[str]]:
    """Return a Markdown text with fences of code, and the fences."""
    rng = random.Random(seed)
    parts, fences = [], []
    for part in range(12):
        body = "\n".join(f"    total_{n} = read({n})" for n in range(rng.randint(2, 14)))
        fences.append(f"```python\ndef f{part}():\n{body}\n    return 1\n```")
        prose = " ".join(_sentence(rng) for _ in range(rng.randint(1, 9)))
        parts += [f"## Part {part}", prose, fences[-1]]
    return "\n\n".join(parts), fences


def _wrapped(words: Sequence[str], at: int, width: float, most: int) -> tuple[list[str], int]:
    texts: list[str] = []
    while at < len(words) and len(texts) < most:
        line = words[at]
        at += 1
        while at < len(words) and text_width(f"{line} {words[at]}") <= width:
            line = f"{line} {words[at]}"
            at += 1
        texts.append(line)
    return texts, at


def _sentences_at(words: Sequence[str], ends: Sequence[int]) -> Iterator[str]:
    """Yield the sentences that go on behind each of the places."""
    for end in ends:
        if words[end - 1].endswith("."):
            continue
        first = next((n + 1 for n in range(end - 1, -1, -1) if words[n].endswith(".")), 0)
        last = next(n for n in range(end, len(words)) if words[n].endswith("."))
        yield " ".join(words[first : last + 1])


def _with_margins(pages: list[list[Drawn]]) -> bytes:
    for number, page in enumerate(pages, start=1):
        foot = FOOT_TEXT.format(page=number, n_pages=len(pages))
        page += [Text(50, HEIGHT - 32, HEAD_TEXT, 8), Text(260, 24, foot, 8)]
    return drawn_pdf(pages)


def _strokes(style: str, xs: Sequence[float], ys: Sequence[float]) -> list[Drawn]:
    xs = [x - 4 for x in xs]
    if style == "grid":
        return grid(xs, ys)
    shown = {"rows": list(ys), "heads": [ys[0], ys[1], ys[-1]]}.get(style, [])
    return [Rule(xs[0], y, xs[-1], y) for y in shown]


def _cell(rng: random.Random, name: str) -> str:
    if name == "Code":
        return f"{rng.choice('ABCDEFG')}{rng.randint(100, 99999)}-{rng.randint(1, 99)}"
    if name == "Article":
        return " ".join(rng.sample(_NOUNS, rng.randint(1, 2))) + rng.choice(
            ["", f" {rng.randint(1, 90)}"]
        )
    if name == "Site":
        return rng.choice(["North", "South", "Hall 2", "Yard"])
    return str(rng.randint(0, 900)) if name == "Stock" else f"{rng.uniform(0, 999):.2f}"


def _sentence(rng: random.Random) -> str:
    who, what, where = (rng.choice(_NOUNS) for _ in range(3))
    person, owner = rng.choice(["foreman", "fitter", "clerk"]), rng.choice(["ACME", "the"])
    return (
        f"Each week the {person} {rng.choice(_VERBS)} the {what} of {owner} {who} number "
        f"{rng.randint(2, 90)} beside the {where}."
    )


class Counts:
    """What was found in all documents."""

    def __init__(self) -> None:
        self.n: Counter[str] = Counter()
        self._folder = tempfile.TemporaryDirectory(prefix="citable-bench-")
        self._tokenizer = E5Tokenizer()

    def read(self, data: bytes, kind: str = "pdf") -> tuple[ParsedDocument, list[Chunk]]:
        """Return a document and its chunks, and note the time that reading took."""
        path = Path(self._folder.name) / f"a.{kind}"
        path.write_bytes(data)
        started = time.process_time()
        document = parse_document(path, path.name)
        self.n[f"{kind} ms"] += round(1000 * (time.process_time() - started))
        self.n[f"{kind} pages"] += len(document.pages)
        return document, [*chunk_document(document, ChunkRule(200, 20), self._tokenizer)]

    def count(self, made: MadeUp, margins: Sequence[str]) -> None:
        """Count what became of a document; ``margins`` are words of its heads and feet."""
        document, chunks = self.read(made.data)
        whole = Counter(table_rows(document.text))
        for row in made.rows:
            self.n["rows"] += 1
            self.n["rows wrong"] += not whole[tuple(row)]
            whole[tuple(row)] -= 1
        wanted = {tuple(row) for row in made.rows}
        for chunk in chunks:
            held = wanted & set(table_rows(chunk.text))
            has_head = tuple(made.head) in table_rows(f"{chunk.context}\n{chunk.text}")
            self.n["rows held"] += len(held)
            self.n["rows parted"] += 0 if has_head else len(held)
            self.n["chunks"] += 1
            self.n["chunks with margins"] += any(re.search(words, chunk.text) for words in margins)
        for sentence in made.broken:
            self.n["broken"] += 1
            self.n["verified"] += _is_verified(sentence, chunks)

    def count_word(self, made: WordTable) -> None:
        """Count the rows of a Word table that a chunk holds without their header, or none."""
        _, chunks = self.read(made.data, "docx")
        wanted = {tuple(row) for row in made.rows}
        whole: set[tuple[str, ...]] = set()
        for chunk in chunks:
            held = wanted & set(table_rows(chunk.text))
            whole |= held
            has_head = tuple(made.head) in table_rows(f"{chunk.context}\n{chunk.text}")
            self.n["Word rows parted"] += 0 if has_head else len(held)
        self.n["Word rows"] += len(wanted)
        self.n["Word rows wrong"] += len(wanted - whole)

    def count_code(self, text: str, fences: Sequence[str]) -> None:
        """Count the fences that would fit a chunk and are in none."""
        _, chunks = self.read(text.encode(), "md")
        for fence in fences:
            if self._tokenizer.count(fence) <= 195:
                self.n["fences"] += 1
                self.n["fences cut"] += not any(fence in chunk.text for chunk in chunks)

    def count_sheet(self, made: ShownSheet) -> None:
        """Count the values of a workbook that no chunk tells with row and column, or wrongly."""
        document, chunks = self.read(made.data, "xlsx")
        told: dict[tuple[str, str], set[str]] = {}
        for article, name, value in told_values(chunks):
            told.setdefault((article, name), set()).add(value)
        self.n["sheet rows"] += document.text.count("\n")
        self.n["values"] += len(made.values)
        self.n["values wrong"] += sum(told.get(key) != {made.values[key]} for key in made.values)
        extra = {article for article, _ in told} - {article for article, _ in made.values}
        self.n["hidden rows shown"] += len(extra - {"", "Article"})

    def count_prose(self, folder: Path) -> None:
        """Count the chunks of a folder's samples whose shown text begins amid a sentence."""
        for path in sorted(folder.glob("*.*")):
            try:
                document = parse_document(path, path.name)
            except RAGError:
                continue
            chunks = [*chunk_document(document, ChunkRule(200, 20), self._tokenizer)]
            for chunk in chunks[1:]:
                at = chunk.char_start
                block = next((one for one in document.blocks if one.start <= at < one.end), None)
                if block is None or block.kind in ("paragraph", "list"):
                    self.n["prose"] += 1
                    self.n["prose amid"] += _is_amid_sentence(document, block, at)


def _is_amid_sentence(document: ParsedDocument, block: Block | None, at: int) -> bool:
    """Return whether no sentence ends before ``at`` and no paragraph begins there."""
    before = document.text[max(0, at - 400) : at]
    last = before.rstrip().rstrip(CLOSING)[-1:]
    if not last or last in TERMINAL:
        return False
    if block is None:
        return document.text[at].islower() or "\n\n" not in before[-5:]
    return document.text[at].islower() or bool(document.text[block.start : at].strip())


def _is_verified(sentence: str, chunks: Sequence[Chunk]) -> bool:
    quote = normalize_quote(sentence).text
    places = (locate_quote(quote, normalize_quote(c.text), is_exact=True) for c in chunks)
    return any(place is not None and place.distance == 0 for place in places)


def case_documents(shared: Path) -> Iterator[tuple[MadeUp, list[str]]]:
    """Yield the cases whose right values are known, with the words of their margins."""
    table, running = shared / "cases" / "table_pages.pdf", shared / "cases" / "running.pdf"
    if not table.is_file():
        print(f"There are no cases in {shared}: made-up documents alone are measured.")
        return
    rows = [
        [f"PN-{1000 + n}", f"Bracket type {n}", str(n % 7), f"{n * 1.5:.2f}"] for n in range(160)
    ]
    yield MadeUp(table.read_bytes(), ["Part no.", "Name", "Stock", "Price EUR"], rows), []
    yield MadeUp(running.read_bytes()), ["ACME CORP", r"Page \d of 6", "all rights reserved"]


def main() -> None:
    """Print the figures and keep them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shared", type=Path, default=SHARED)
    shared = options.parse_args().shared
    counts = Counts()
    margins = [re.escape(HEAD_TEXT), r"Page \d+ of \d+"]
    for seed in range(N_DOCUMENTS):
        for style in STYLES:
            counts.count(table_document(FIRST_SEED + seed, style), margins)
        counts.count(prose_document(FIRST_SEED + seed, 1 + seed % 2), margins)
    for made, words in case_documents(shared):
        counts.count(made, words)
    for seed in range(FIRST_OFFICE_SEED, FIRST_OFFICE_SEED + N_DOCUMENTS):
        counts.count_word(word_table(seed))
        counts.count_sheet(shown_sheet(seed))
        counts.count_code(*fenced_text(seed))
    counts.count_prose(shared / "samples")
    n = counts.n
    report = Report("documents")
    report.add("rows of PDF tables", n["rows"], is_kept=False)
    report.add("rows wrong or glued, %", 100 * n["rows wrong"] / n["rows"], most=1)
    report.add("rows parted from their header", n["rows parted"], most=0)
    report.add(
        "chunks with a running head or foot, %",
        100 * n["chunks with margins"] / n["chunks"],
        most=1,
    )
    report.add("sentences over a page break", n["broken"], is_kept=False)
    report.add("of these verified, share", n["verified"] / n["broken"], least=1)
    report.add("pages read a second, one core", 1000 * n["pdf pages"] / n["pdf ms"])
    report.add("rows of Word tables", n["Word rows"], is_kept=False)
    report.add("rows wrong, Word", n["Word rows wrong"], most=0)
    report.add("rows parted from their header, Word", n["Word rows parted"], most=0)
    report.add("values of workbooks", n["values"], is_kept=False)
    report.add("values wrong or without row and column, workbooks", n["values wrong"], most=0)
    report.add("hidden rows shown, workbooks", n["hidden rows shown"], most=0)
    report.add("code blocks that fit a chunk", n["fences"], is_kept=False)
    report.add("code blocks that would fit and are cut", n["fences cut"], most=0)
    report.add("chunks of prose in the samples", n["prose"], is_kept=False)
    amid = 100 * n["prose amid"] / max(1, n["prose"])
    report.add("prose that begins amid a sentence, %", amid, most=3)
    report.save()


if __name__ == "__main__":
    main()
