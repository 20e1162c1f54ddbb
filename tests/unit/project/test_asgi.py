"""The server starts at once and loads its model beside the first requests."""

from __future__ import annotations

from typing import Any

import pytest

from project import asgi
from rag.core.errors import ConfigurationError
from rag.services.wiring import registry as warm_up
from rag.services.wiring import registry as wiring


async def test_lifespan_is_answered_and_the_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warmed: list[int] = []
    monkeypatch.setattr(asgi, "warm_up", lambda: warmed.append(1))
    incoming = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return next(incoming)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await asgi.application({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    for thread in asgi.threading.enumerate():
        if thread.name == "warm-up":
            thread.join()
    assert warmed == [1]


def test_a_model_that_cannot_be_loaded_is_told_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str = "") -> Any:
        raise ConfigurationError("No key is set.", hint="Set one.")

    monkeypatch.setattr(wiring, "embedder", fail)
    warm_up.warm_up()
    assert "No key is set. Set one." in caplog.text
