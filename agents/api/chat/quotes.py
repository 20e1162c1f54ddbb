"""Quoted pages by django-ninja: where a citation stands, as marks on a page or its image."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from agents.chat.history.history import find_message
from agents.chat.history.quotes import quote_image, quote_page
from rag.api.http.authentication import require_caller
from rag.api.http.schemas import PROBLEMS

router = Router(tags=["agents"])
_Number = Annotated[int, Field(ge=1, le=9999)]
_Of = Literal["citations", "sources"]


class QuotePage(Schema):
    """A page's text; `text[start:end]` is the quote, null where it is not there.

    `is_current` false: the file says something else today, and `text` is the passage as it was.
    """

    number: int
    quote: str | None
    verdict: str | None
    claim: str | None
    found: str | None
    distance: int | None
    doc_id: str | None
    score: float | None
    file_id: int
    file_name: str
    kind: str
    page: int | None
    label: str
    text: str
    start: int | None
    end: int | None
    is_current: bool
    has_image: bool
    heading_path: list[str]


class QuoteMarks(Schema):
    """The picture's size in pixels; boxes are left, top, width and height in shares of it."""

    width: int
    height: int
    boxes: list[list[float]]


@router.get("/{key}/{number}", response={200: QuotePage, **PROBLEMS}, summary="Read a quote's page")
def show_quote_page(request: HttpRequest, key: str, number: _Number, of: _Of = "citations") -> Any:
    """Return the page that a citation, or one of the sources, stands on."""
    scope = require_caller(request, "read").scope
    message = find_message(key=key, scope=scope)
    return quote_page(message=message, number=number, scope=scope, of=of)


@router.get(
    "/{key}/{number}/marks", response={200: QuoteMarks, **PROBLEMS}, summary="Find a quote's boxes"
)
def quote_marks(request: HttpRequest, key: str, number: _Number, of: _Of = "citations") -> Any:
    """Return where a quote stands on the picture of its page; no boxes where it is not found."""
    scope = require_caller(request, "read").scope
    message = find_message(key=key, scope=scope)
    drawn = quote_image(message=message, number=number, scope=scope, of=of)
    boxes = [list(box) for box in drawn.boxes]
    return {"width": drawn.width, "height": drawn.height, "boxes": boxes}


@router.get(
    "/{key}/{number}/image",
    response={200: None, **PROBLEMS},
    summary="Draw a quote's page",
    openapi_extra={"responses": {200: {"content": {"image/png": {}}}}},
)
def image(request: HttpRequest, key: str, number: _Number, of: _Of = "citations") -> Any:
    """Return the page of a PDF as a PNG, without marks."""
    scope = require_caller(request, "read").scope
    message = find_message(key=key, scope=scope)
    drawn = quote_image(message=message, number=number, scope=scope, of=of)
    response = HttpResponse(drawn.png, content_type="image/png")
    # For this person and this visit: rights may change.
    response["Cache-Control"] = "private, max-age=300"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
