"""One document by its address, as passages for a prompt. In: an address, a question. Out: hits.

Unlike files for Gemini it may be a web page, or anything else that stores can read. Ours are read
past HTTP, if the scope may; all others go through the guard. Nothing of it is kept.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.file_search import InlineFile
from rag.core.hits import Hit
from rag.providers.bring_url import bring_url
from rag.providers.budgeted_file import MB, Budget
from rag.providers.postgres.connections import release_db
from rag.services.file_passages import file_context
from rag.services.own_files import own_path

MAX_MB = 20


def fetch_page(
    *, url: str, name: str, question: str, scope: Scope, deadline: Deadline
) -> tuple[Hit, ...]:
    """Return the passages of a document that bear on a question, or all of a short one.

    ``name`` is what it is called in errors, and its ending may tell its kind. Raises
    NotFoundError for a file of ours that ``scope`` may not read, InvalidInputError for an address
    that is not taken, LimitError over 20 MB, DocumentError for what has no text, and what the
    guard raises.
    """
    path = own_path(url, scope, ())
    release_db()
    with TemporaryDirectory(prefix="citable-page-") as folder:
        budget = Budget(MAX_MB * MB, MAX_MB * MB)
        if path is None:
            path = Path(folder) / "page"
            bring_url(
                url, path, name=name, budget=budget, deadline=deadline, allowed=conf().fetch_hosts
            )
        else:
            budget.take(path.stat().st_size)
        files = [InlineFile(name, path, "")]
        context = file_context(question=question, files=files, deadline=deadline)
    return tuple(passage.hit for passage in context.passages)
