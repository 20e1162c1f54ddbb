"""A file's kept text as a parsed document. In: its row. Out: what its parser had told."""

from __future__ import annotations

from rag import models
from rag.core.documents import Block, Notice, Page, ParsedDocument


def kept_document(*, file: models.File) -> ParsedDocument | None:
    """Return what the file was last read as, None where it was never read."""
    if not file.revision or not file.canonical_text:
        return None
    # What is said of the rule is said anew.
    again = file.chunk_rule.notice.message if file.chunk_rule.notice else ""
    told = [Notice.from_dict(one) for one in file.warnings if isinstance(one, dict)]
    return ParsedDocument(
        kind=file.kind, text=file.canonical_text, parser=file.parser, encoding=file.encoding,
        pages=tuple(Page(**page) for page in file.pages),
        blocks=tuple(Block(**block) for block in file.blocks),
        warnings=tuple(one for one in told if one.message != again),
    )  # fmt: skip
