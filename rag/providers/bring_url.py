"""What lies at an address, brought to disk. In: http, https or data. Out: a budgeted file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.providers.budgeted_file import Budget, BudgetedFile
from rag.providers.guarded_http import guarded_download
from rag.stages.read_data_url import read_data_url


def bring_url(
    url: str, target: Path, *, name: str, budget: Budget, deadline: Deadline, allowed: Sequence[str]
) -> None:
    """Write the bytes to ``target``; raise as ``guarded_download`` does.

    ``name`` is for the errors, ``allowed`` are private hosts that may be called. Raises
    InvalidInputError for another scheme, LimitError over the budget.
    """
    scheme = url.partition(":")[0].lower()
    with BudgetedFile(target, budget) as sink:
        if scheme == "data":
            sink.write(read_data_url(url, name=name, max_bytes=budget.each))
        elif scheme in ("http", "https"):
            guarded_download(url, sink, max_bytes=budget.each, deadline=deadline, allowed=allowed)
        else:
            raise InvalidInputError(
                "The address begins with “{scheme}”.",
                hint="Allowed: http, https, data, and files of this knowledge base.",
                scheme=scheme[:20],
            )  # fmt: skip
