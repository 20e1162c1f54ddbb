"""NinjaAPI by our rules: operations named for clients, HEAD where GET is, one error map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import NinjaAPI
from ninja.operation import Operation

from rag.api.http.bodies import BodyParser
from rag.api.http.errors import HttpFailure, install_error_map

# What the OpenAPI document describes: every one that was made.
DESCRIBED: list[DescribedAPI] = []


class DescribedAPI(NinjaAPI):
    """A NinjaAPI of ``routers`` (prefix, router, perhaps who may call).

    ``render`` puts its errors into words.
    """

    def __init__(
        self,
        *,
        auth: Any,
        namespace: str,
        render: Callable[[HttpRequest, HttpFailure], HttpResponseBase],
        routers: list[tuple[Any, ...]],
    ) -> None:
        super().__init__(
            version="1",
            auth=auth,
            urls_namespace=namespace,
            parser=BodyParser(),
            docs_url=None,
            openapi_url=None,
        )
        for prefix, router, *own_auth in routers:
            self.add_router(prefix, router, **({"auth": own_auth[0]} if own_auth else {}))
        install_error_map(self, render)
        self._answer_head()
        DESCRIBED.append(self)

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return such as ``rag_answer_question``."""
        tag = (operation.tags or ["api"])[0].replace(" ", "_")
        return f"{tag}_{operation.view_func.__name__}"

    def _answer_head(self) -> None:
        """Let HEAD be asked wherever GET is; the server sends no body then."""
        for _, router in self._routers:
            for view in router.path_operations.values():
                for operation in view.operations:
                    if operation.methods == ["GET"]:
                        operation.methods = ["GET", "HEAD"]
