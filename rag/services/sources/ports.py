"""Source ports: search, embeddings, guarded HTTP and secrets that data sources may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.file_search import GroundedAnswer
from rag.core.sources import AnswerRequest, FetchReply, FetchRequest
from rag.core.types import RetrievalSettings, SearchResult
from rag.providers.http.guard import GuardedHttp
from rag.services.answers import answer_grounded
from rag.services.plugins import secret_value
from rag.services.search import retrieve, validated_query
from rag.services.stores import find_stores
from rag.services.wiring import registry as wiring

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SourceContext:
    """``rag.core.sources.SourcePorts`` on our own services; has no state and may be shared."""

    def search(
        self, query: str, *, scope: Scope, stores: Sequence[str], changes: Mapping[str, Any]
    ) -> SearchResult:
        """Search stores by name, slug or resource name; raise NotFoundError for one unreadable.

        Whoever set the source up named them, and who asks may not know of them.
        """
        try:
            found = find_stores(names=stores, scope=scope)
        except NotFoundError:
            raise _hidden() from None
        settings = RetrievalSettings.from_dict({**found[0].retrieval, **changes})
        return retrieve(query=query, scope=scope, stores=found, settings=settings)

    def embed_query(self, text: str, *, model: str = "") -> NDArray[np.float32]:
        """Return the vector of a question; an empty ``model`` is the configured one."""
        if not text.strip():
            raise InvalidInputError("The query is empty.", hint="Ask something.")
        return wiring.embedder(model).embed_query(text)

    def fetch(self, request: FetchRequest, *, deadline: Deadline) -> FetchReply:
        """Call an address, guarded; private ones only when the installation allows them."""
        return GuardedHttp(conf().fetch_hosts).fetch(request, deadline=deadline)

    def answer(self, request: AnswerRequest, *, scope: Scope, deadline: Deadline) -> GroundedAnswer:
        """Answer from stores, whichever backend keeps them, or from files by their addresses."""
        asked = replace(request, text=validated_query(query=request.text))
        try:
            return answer_grounded(asked=asked, scope=scope, deadline=deadline)
        except NotFoundError:
            raise _hidden() from None

    def secret(self, name: str, *, url: str = "") -> str:
        """Return a secret of the installation, where it may be sent to ``url``."""
        return secret_value(name=name, url=url)


def _hidden() -> NotFoundError:
    return NotFoundError(
        "What this source looks into is not there, or you may not read it.",
        hint="Whoever set it up can check the names of its stores and files.",
    )
