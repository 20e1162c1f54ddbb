"""Pictures of pages: drawn once, a few at a time, within limits, for whom they are."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile

from rag.core.access import Scope
from rag.core.documents import PageImage
from rag.core.errors import DocumentError, InvalidInputError, LimitError, NotFoundError
from rag.providers.sandbox.page_renderer import PageRenderer
from rag.services.answers import page_view as service
from rag.services.answers.page_view import page_image
from tests import hostile_files
from tests.factories import FileFactory

RAW = hostile_files.text_pdf([["The pump is serviced every 30 days."], ["Second page."]])
OPERATOR = Scope.operator()


@pytest.fixture
def file(db: None) -> Any:
    service._KEPT.clear()
    return FileFactory(
        name="a.pdf", kind="pdf", sha256="b" * 64, content=ContentFile(RAW, name="b")
    )


def test_it_is_drawn_once_for_each_quote(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, str]] = []
    real = PageRenderer.render

    def render(self: PageRenderer, path: Path, name: str, **more: Any) -> PageImage:
        drawn.append((more["page"], more["marked"].quote))
        return real(self, path, name, **more)

    monkeypatch.setattr(PageRenderer, "render", render)
    first = page_image(file_id=file.pk, page=1, scope=OPERATOR, quote="every 30 days")
    again = page_image(file_id=file.pk, page=1, scope=OPERATOR, quote="every 30 days")
    assert first == again and len(first.boxes) == 1
    assert page_image(file_id=file.pk, page=2, scope=OPERATOR).boxes == ()
    assert drawn == [(1, "every 30 days"), (2, "")]


def test_who_may_not_read_the_file_gets_nothing_though_it_is_kept(file: Any) -> None:
    page_image(file_id=file.pk, page=1, scope=OPERATOR)
    with pytest.raises(NotFoundError):
        page_image(file_id=file.pk, page=1, scope=Scope.anonymous())
    file.delete()
    with pytest.raises(NotFoundError):
        page_image(file_id=file.pk, page=1, scope=OPERATOR)


def test_other_kinds_lost_bytes_and_pages_that_are_not_there_are_refused(file: Any) -> None:
    with pytest.raises(DocumentError, match="has no page 3"):
        page_image(file_id=file.pk, page=3, scope=OPERATOR)
    other = FileFactory(kind="docx")
    with pytest.raises(InvalidInputError, match="has no pages to draw"):
        page_image(file_id=other.pk, page=1, scope=OPERATOR)
    file.content.storage.delete(file.content.name)
    with pytest.raises(NotFoundError, match="bytes"):
        page_image(file_id=file.pk, page=1, scope=OPERATOR)


def test_when_too_many_are_drawn_the_next_is_told_to_come_back(
    file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = threading.BoundedSemaphore(1)
    full.acquire()
    monkeypatch.setattr(service, "_ROOM", full)
    monkeypatch.setattr(service, "WAIT_S", 0.01)
    with pytest.raises(LimitError):
        page_image(file_id=file.pk, page=1, scope=OPERATOR)


@pytest.mark.parametrize(
    "renderer", [PageRenderer(wall_s=0.01), PageRenderer(memory_bytes=40 * 1024**2)]
)
def test_a_process_beyond_its_limits_is_ended(renderer: PageRenderer, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(RAW)
    with pytest.raises(DocumentError, match="cannot be drawn"):
        renderer.render(path, "a.pdf", page=1)


def test_a_page_of_kilometres_has_a_picture_of_ordinary_size(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(RAW.replace(b"[0 0 612 792]", b"[0 0 9 14400]"))
    drawn = PageRenderer().render(path, "a.pdf", page=1)
    assert drawn.width * drawn.height <= 6_100_000
