"""OCR child process: ``python -m rag.providers.sandbox.recognize_child FOLDER``.

Reads ``FOLDER/job``; writes ``FOLDER/begun-N`` and ``FOLDER/page-N`` for each page as it goes, and
``FOLDER/facts`` first. It knows no Django, and may be killed at any moment: what is written stays.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from rag.core.errors import DocumentError
from rag.core.ocr.recognizers import OcrEngine
from rag.core.ocr.scans import PageWords
from rag.providers.sandbox.parse_child import OUT_OF_MEMORY, limit_process, write_facts
from rag.stages.parse.ocr.pictures import PictureSource, pictures_of
from rag.stages.parse.ocr.recognize import PagePicture, recognize_page

# Seconds of processor time that a page may take.
PAGE_CPU_S = 120


def main(folder: Path) -> int:
    """Recognize the job's pages within its limits and return the exit code."""
    job = json.loads((folder / "job").read_text(encoding="utf-8"))
    limit_process(job)
    try:
        source = pictures_of(Path(job["path"]), job["name"], job["max_pages"])
        write_facts(folder, {"n_pages": len(source.numbers)})
        if not job["counts_only"]:
            _recognize_all(folder, source, frozenset(job["known"]), job["threads"])
    except DocumentError as error:
        write_facts(folder, {"error": error.as_dict()})
    except MemoryError:
        return OUT_OF_MEMORY
    return 0


def _recognize_all(
    folder: Path, source: PictureSource, known: frozenset[int], n_threads: int
) -> None:
    """Draw page after page here, and recognize as many at once as there are threads."""
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(n_threads, "ocr") as pool:
        for number in source.numbers:
            if number in known:
                continue
            _begin(folder, number)
            try:
                picture = source.load(number)
            except DocumentError:
                if len(source.numbers) == 1 and not source.is_part:
                    raise
                _write(folder, PageWords(number, 0, 0, has_failed=True))
                continue
            if len(waiting) >= n_threads:
                waiting.popleft().result()
            waiting.append(pool.submit(_recognize, folder, picture))
        for job in waiting:
            job.result()


def _begin(folder: Path, number: int) -> None:
    """Note that a page is begun, and let it have its time; nobody waits for an orphan."""
    if os.getppid() == 1:
        os._exit(1)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    seconds = int(used.ru_utime + used.ru_stime) + PAGE_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, hard), hard))
    (folder / f"begun-{number}").touch()


def _recognize(folder: Path, picture: PagePicture) -> None:
    _write(folder, recognize_page(picture, _engine()))


@cache
def _engine() -> OcrEngine:
    # Loaded with the first page that needs it: it takes a second and 200 MB.
    from rag.providers.rapidocr.engine import RapidOcrEngine

    return RapidOcrEngine()


def _write(folder: Path, page: PageWords) -> None:
    partial = folder / f"partial-{page.number}"
    partial.write_text(page.to_json(), encoding="utf-8", errors="surrogatepass")
    partial.rename(folder / f"page-{page.number}")


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1])))
