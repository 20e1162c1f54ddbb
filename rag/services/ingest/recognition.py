"""OCR of a file: each page's words are kept as they come, so that a killed job goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

from django.db.models import QuerySet

from rag import models
from rag.conf import conf
from rag.core.ocr.recognizers import PageRecognizer
from rag.core.ocr.scans import OCR_VERSION, PageWords
from rag.providers.sandbox.recognizer import SandboxedRecognizer
from rag.stages.detect.sniff import may_hold_pictures


def recognize_file(*, file: models.File, path: Path, gives_way: Callable[[], bool]) -> bool | None:
    """Recognize the file's pages that are pictures and are not yet; tell whether OCR is in use.

    It is where the store wants it and the package is installed. None where ``gives_way``, asked
    after each page, said so before the last. Raises DocumentError for a file that cannot be opened.
    """
    recognizer = _recognizer()
    if not file.store.ocr or not recognizer.is_installed():
        return False
    if may_hold_pictures(path):
        kept = _kept(file).filter(has_failed=False).values_list("number", flat=True)
        done = set(kept)

        def keep(page: PageWords, n_pages: int) -> None:
            _keep_page(file, page)
            done.add(page.number)
            _tell(file, len(done), n_pages)
            if len(done) < n_pages and gives_way():
                raise CancelledError

        try:
            recognizer.recognize(path, file.name, known=frozenset(done), on_page=keep)
        except CancelledError:
            return None
    return True


def count_pages_for_ocr(*, path: Path, name: str) -> int:
    """Return how many pages of a file text recognition would read, none where it is not there.

    Raises DocumentError for a file that cannot be opened.
    """
    recognizer = _recognizer()
    if not recognizer.is_installed() or not may_hold_pictures(path):
        return 0
    return recognizer.count_pages(path, name)


def is_ocr_installed() -> bool:
    """Return whether text recognition can be used on this machine."""
    return _recognizer().is_installed()


def _recognizer() -> PageRecognizer:
    return SandboxedRecognizer(max_pages=conf().ocr_max_pages)


def recognized_pages(*, file: models.File) -> Iterator[tuple[int, str]]:
    """Yield number and words of the recognized pages of the file's bytes."""
    yield from _kept(file).order_by("number").values_list("number", "words").iterator()


def drop_old_scans(*, file: models.File) -> None:
    """Remove what was recognized in bytes that the file no longer has, or by another engine."""
    models.ScannedPage.objects.filter(file=file).exclude(
        sha256=file.sha256, engine=OCR_VERSION
    ).delete()


def _kept(file: models.File) -> QuerySet[models.ScannedPage]:
    return models.ScannedPage.objects.filter(file=file, sha256=file.sha256, engine=OCR_VERSION)


def _keep_page(file: models.File, page: PageWords) -> None:
    models.ScannedPage.objects.update_or_create(
        file=file,
        sha256=file.sha256,
        number=page.number,
        defaults={
            "engine": OCR_VERSION,
            "confidence": page.confidence,
            "has_failed": page.has_failed,
            "words": page.to_json(),
        },
    )


def _tell(file: models.File, n_done: int, n_pages: int) -> None:
    share = round(n_done / max(1, n_pages), 4)
    progress = {"stage": "recognizing", "page": n_done, "pages": n_pages, "share": share}
    models.File.objects.filter(pk=file.pk).update(progress=progress)
