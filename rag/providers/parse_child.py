"""The process that parses one file: ``python -m rag.providers.parse_child PATH NAME OUT``.

Out: ``OUT/text`` and ``OUT/facts``, or an error in ``OUT/facts``. It knows no Django, holds no
database and no network connection, and may be killed at any moment.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rag.core.errors import DocumentError
from rag.stages.parse import parse_document


def main(path: str, name: str, out: str, limits: str) -> None:
    """Parse within ``limits`` (bytes of memory, CPU seconds) and write what came of it."""
    memory, cpu_s = (int(part) for part in limits.split(","))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
    folder = Path(out)
    try:
        document = parse_document(Path(path), name)
    except DocumentError as error:
        facts: dict[str, Any] = {"error": error.as_dict()}
    else:
        with (folder / "text").open("w", encoding="utf-8", newline="") as file:
            for start in range(0, len(document.text), 1 << 20):
                file.write(document.text[start : start + (1 << 20)])
        facts = {
            "kind": document.kind, "parser": document.parser, "encoding": document.encoding,
            "title": document.title, "warnings": document.warnings,
            "pages": [list(asdict(page).values()) for page in document.pages],
            "blocks": [list(asdict(block).values()) for block in document.blocks],
        }  # fmt: skip
    partial = folder / "facts.partial"
    partial.write_text(json.dumps(facts), encoding="utf-8")
    partial.rename(folder / "facts")


if __name__ == "__main__":
    main(*sys.argv[1:])
