"""Page context: what a page or application sends along with a message, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rag.core.errors import RAGError
    from rag.core.hits import Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """A selected ``text``, the ``title`` and ``url`` of the page it is on, ``urls`` of documents to
    read, and ``entities`` that the page is about: each a name with further facts as texts."""

    text: str = ""
    title: str = ""
    url: str = ""
    urls: tuple[str, ...] = ()
    entities: tuple[Mapping[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is anything to look at."""
        return bool(self.text.strip() or self.urls or self.entities)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return what ``as_dict`` was made from; what is missing is empty."""
        return cls(
            text=values.get("text") or "",
            title=values.get("title") or "",
            url=values.get("url") or "",
            urls=tuple(values.get("urls") or ()),
            entities=tuple(dict(one) for one in values.get("entities") or ()),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form; empty when there is nothing."""
        if not self:
            return {}
        return {
            "text": self.text,
            "title": self.title,
            "url": self.url,
            "urls": list(self.urls),
            "entities": [dict(one) for one in self.entities],
        }


@dataclass(frozen=True, slots=True)
class PageRead:
    """What was read of it: ``hits`` can be cited, ``about`` is told beside, ``failures`` are not
    the answer's."""

    hits: Sequence[Hit] = ()
    about: str = ""
    failures: Sequence[RAGError] = ()

    def __bool__(self) -> bool:
        """Return whether anything came of it."""
        return bool(self.hits or self.about)
