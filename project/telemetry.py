"""OpenTelemetry: exports the spans of ``rag.core.metrics`` as OTLP where an endpoint is set."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings

from rag.core import metrics
from rag.core.metrics import Finish
from rag.core.request_context import current_account, current_request

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)
# The names that OpenTelemetry has agreed on for models.
_NAMES = {
    "model": "gen_ai.request.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "method": "http.request.method",
    "status": "http.response.status_code",
    "route": "http.route",
    "error": "error.type",
}
_started: list[TracerProvider] = []


class SpanWatcher:
    """``rag.core.metrics.MetricsListener`` that makes spans."""

    def __init__(self, provider: TracerProvider) -> None:
        # Part of the extra; needed only where it is set up.
        from opentelemetry import context, trace

        self._trace, self._context = trace, context
        self._tracer = provider.get_tracer("citable")

    def count(self, name: str, n: float, labels: Mapping[str, str]) -> None:
        """Counts are no spans."""

    def time(self, name: str, seconds: float, labels: Mapping[str, str]) -> None:
        """Times are in the spans already."""

    def span(self, name: str, facts: Mapping[str, Any], is_current: bool) -> Finish:
        """Begin a span below the current one."""
        account, request = current_account(), current_request()
        ids = {
            "citable.run": account.run,
            "citable.agent": account.agent,
            "citable.request": request.id,
        }
        begun = self._tracer.start_span(name, attributes={**_named(facts), **_named(ids)})
        token = self._context.attach(self._trace.set_span_in_context(begun)) if is_current else None

        def finish(more: Mapping[str, Any]) -> None:
            begun.set_attributes(_named(more))
            if "error" in more or more.get("outcome") == "failed":
                begun.set_status(self._trace.StatusCode.ERROR)
            begun.end()
            if token is not None:
                self._context.detach(token)

        return finish


def start_telemetry() -> bool:
    """Send spans to OTEL_EXPORTER_OTLP_ENDPOINT from now on; return whether that is so.

    Nothing of OpenTelemetry is loaded where no endpoint is set.
    """
    endpoint = str(settings.OTEL_ENDPOINT).rstrip("/")
    if not endpoint or _started:
        return bool(_started)
    try:
        # Heavy, and part of the extra.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        # The same.
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.error(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but opentelemetry is not installed:"
            " see requirements-extras.txt. No spans are sent."
        )
        return False
    provider = TracerProvider(resource=Resource.create({"service.name": "citable"}))
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    metrics.LISTENERS.append(SpanWatcher(provider))
    _started.append(provider)
    return True


def stop_telemetry() -> None:
    """Send what waits, and no more from now on."""
    for provider in _started:
        provider.shutdown()
    _started.clear()
    metrics.LISTENERS[:] = [one for one in metrics.LISTENERS if not isinstance(one, SpanWatcher)]


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _NAMES.get(name, name): value if isinstance(value, (bool, int, float)) else str(value)
        for name, value in facts.items()
        if value is not None and value != ""
    }
