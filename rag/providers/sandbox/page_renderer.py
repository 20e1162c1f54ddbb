"""Page renderer: one PDF page as an image, in a limited child process."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from rag.core.documents import MarkedQuote, PageImage
from rag.core.errors import DocumentError
from rag.providers.sandbox.process import child_folder, run_child

NOTHING_MARKED = MarkedQuote()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageRenderer:
    """A spawned process per page with limits on memory, CPU and time."""

    memory_bytes: int = 1024**3
    cpu_s: int = 15
    wall_s: float = 25.0

    def render(
        self,
        path: Path,
        name: str,
        *,
        page: int,
        marked: MarkedQuote = NOTHING_MARKED,
        scan: str = "",
    ) -> PageImage:
        """Return the page; raise DocumentError, also when the process was killed.

        ``scan`` is what OCR has recognized on it, as ``PageWords.to_json``.
        """
        with child_folder() as folder:
            job = {
                "path": str(path.absolute()),
                "name": name,
                "page": page,
                "marked": asdict(marked),
                "scan": scan,
                "cpu_s": self.cpu_s,
                "memory_bytes": self.memory_bytes,
            }
            (folder / "job").write_text(json.dumps(job), encoding="utf-8")
            code = run_child("rag.providers.sandbox.render_child", folder, self.wall_s)
            if code != 0 or not (folder / "facts").exists():
                complaint = (folder / "complaint").read_text(encoding="utf-8", errors="replace")
                _log.error(
                    "Drawing page %s of %r failed (%s): %s", page, name, code, complaint[-4000:]
                )
                raise DocumentError(
                    "Page {number} of “{name}” cannot be drawn.", name=name, number=page
                )
            facts = json.loads((folder / "facts").read_text(encoding="utf-8"))
            if "error" in facts:
                raise DocumentError.from_dict(facts["error"])
            boxes = tuple(tuple(box) for box in facts["boxes"])
            png = (folder / "png").read_bytes()
        return PageImage(png, facts["width"], facts["height"], boxes)
