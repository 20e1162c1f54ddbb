"""Sandboxed OCR: the PageRecognizer port, each file's pages in a limited child process.

A child that dies or hangs is begun anew without the pages that are done; a page on which two have
died is told as failed, and the others go on.
"""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.providers.sandbox.process import child_folder, watch_child

_log = logging.getLogger(__name__)
# Each takes memory of its own; more processors are for more files.
MOST_THREADS = 2
OnPage = Callable[[PageWords, int], None]


@dataclass(frozen=True, slots=True)
class SandboxedRecognizer:
    """A spawned process per file; limits are on its memory, and on the time without a new page."""

    memory_bytes: int = 5 * 1024**3 // 2
    cpu_s: int = 24 * 3600
    stall_s: float = 180.0
    max_pages: int = 2000
    threads: int = 0

    def is_installed(self) -> bool:
        """Return whether the engine's package is there; nothing of it is loaded."""
        return find_spec("rapidocr") is not None

    def count_pages(self, path: Path, name: str) -> int:
        """Return how many pages it would recognize; nothing is loaded to read them.

        Raises DocumentError for a file that cannot be opened.
        """
        run = _Run(self, path, name, set(), lambda page, n_pages: None)
        run.is_over(1, counts_only=True)
        return run.n_pages

    def recognize(self, path: Path, name: str, *, known: Collection[int], on_page: OnPage) -> None:
        """Call ``on_page`` with each page that is not ``known``, and how many there are in all.

        Raises DocumentError for a file that cannot be opened.
        """
        run = _Run(self, path, name, set(known), on_page)
        threads = self.threads or min(MOST_THREADS, len(os.sched_getaffinity(0)))
        while not run.is_over(threads):
            # Whoever died with several pages in hand tries them one by one.
            threads = 1


class _Run:
    """One file: the pages that are done, and how often others were begun in vain."""

    def __init__(
        self, of: SandboxedRecognizer, path: Path, name: str, known: set[int], on_page: OnPage
    ) -> None:
        self._of, self._path, self._name = of, path, name
        self._known, self._on_page = known, on_page
        self.n_pages = 0
        self._deaths: Counter[int] = Counter()

    def is_over(self, threads: int, *, counts_only: bool = False) -> bool:
        """Run one child and take its pages; return whether there is nothing left to do."""
        with child_folder() as folder:
            job = {
                "path": str(self._path.absolute()),
                "name": self._name,
                "known": sorted(self._known),
                "threads": threads,
                "counts_only": counts_only,
                "cpu_s": self._of.cpu_s,
                "memory_bytes": self._of.memory_bytes,
                "max_pages": self._of.max_pages,
            }
            (folder / "job").write_text(json.dumps(job), encoding="utf-8")
            module = "rag.providers.sandbox.recognize_child"
            code = watch_child(module, folder, self._of.stall_s, lambda: self._take(folder))
            self._read_facts(folder)
            if code == 0:
                return True
            complaint = (folder / "complaint").read_text("utf-8", "replace")[-4000:]
            begun = {int(one.name.removeprefix("begun-")) for one in folder.glob("begun-*")}
        hanging = begun - self._known
        _log.warning("OCR of %r ended (%s) at %s: %s", self._name, code, hanging, complaint)
        if not hanging:
            raise DocumentError(
                "“{name}” cannot be read: its parser failed.",
                hint="Save it anew, or in another format, and upload that.",
                name=self._name,
            )
        self._deaths.update(hanging)
        for number in sorted(hanging):
            if self._deaths[number] > 1 or threads == len(hanging) == 1:
                self._done(PageWords(number, 0, 0, has_failed=True))
        return False

    def _take(self, folder: Path) -> bool:
        """Hand on the pages that are new; return whether there are any."""
        if not self.n_pages:
            self._read_facts(folder)
        found = sorted(folder.glob("page-*"), key=lambda one: int(one.name.removeprefix("page-")))
        for one in found:
            page = PageWords.from_json(one.read_text("utf-8", "surrogatepass"))
            one.unlink()
            self._done(page)
        return bool(found)

    def _done(self, page: PageWords) -> None:
        self._known.add(page.number)
        self._on_page(page, self.n_pages)

    def _read_facts(self, folder: Path) -> None:
        if (folder / "facts").exists():
            facts = json.loads((folder / "facts").read_text(encoding="utf-8"))
            if "error" in facts:
                raise DocumentError.from_dict(facts["error"])
            self.n_pages = facts["n_pages"]
