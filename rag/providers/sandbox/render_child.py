"""Renderer child process: ``python -m rag.providers.sandbox.render_child FOLDER``.

Reads ``FOLDER/job``; writes ``FOLDER/png`` and ``FOLDER/facts``, or an error in ``FOLDER/facts``.
It knows no Django, holds no database and no network connection, and may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from rag.core.documents import MarkedQuote
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.providers.sandbox.parse_child import OUT_OF_MEMORY, limit_process, write_facts
from rag.stages.draw_page import draw_page


def main(folder: Path) -> int:
    """Draw within the job's limits, write what came of it and return the exit code."""
    job = json.loads((folder / "job").read_text(encoding="utf-8"))
    limit_process(job)
    try:
        marked = MarkedQuote(**job["marked"])
        scan = PageWords.from_json(job["scan"]) if job["scan"] else None
        drawn = draw_page(Path(job["path"]), job["name"], job["page"], marked, scan)
        (folder / "png").write_bytes(drawn.png)
        size = {"width": drawn.width, "height": drawn.height}
        write_facts(folder, {**size, "boxes": [list(box) for box in drawn.boxes]})
    except DocumentError as error:
        write_facts(folder, {"error": error.as_dict()})
    except MemoryError:
        return OUT_OF_MEMORY
    return 0


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1])))
