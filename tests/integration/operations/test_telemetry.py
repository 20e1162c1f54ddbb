"""Spans go to a collector when one is set, and nothing is loaded or sent when none is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from project.telemetry import start_telemetry, stop_telemetry
from rag.core import metrics
from rag.core.ports import ChatRequest
from rag.core.request_context import use_account
from rag.core.types import Message
from rag.services.wiring import registry as wiring
from tests.edges.admin_client import use_words_embedder
from tests.fakes.loopback import LoopbackServer, Reply
from tests.fakes.openai_server import OpenAIServer, Script

pytestmark = pytest.mark.django_db
MODEL = "openai_compatible:qwen3"


@pytest.fixture
def collector(settings: Any) -> Iterator[LoopbackServer]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with LoopbackServer() as server:
        server.route("POST", "/v1/traces", lambda call: Reply(b""))
        settings.OTEL_ENDPOINT = f"{server.origin}/"
        assert start_telemetry()
        yield server
        stop_telemetry()


def spans(server: LoopbackServer) -> dict[str, Any]:
    """Send what waits and return the spans that the collector was told, by name."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    stop_telemetry()
    told = {}
    for call in server.calls:
        request = ExportTraceServiceRequest.FromString(call.body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                told |= {span.name: span for span in scope.spans}
    return told


def facts(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_a_request_and_what_it_led_to_are_one_trace(
    collector: LoopbackServer, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    with OpenAIServer() as server:
        settings.RAG = {**settings.RAG, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}
        server.chat = Script(pieces=("Two years.",))
        with metrics.span("request", method="POST"), use_account(run="run-7", agent="desk"):
            wiring.chat_model(MODEL).generate(ChatRequest([Message("user", "a secret question")]))
    told = spans(collector)
    model, request = told["model"], told["request"]
    assert (model.trace_id, model.parent_span_id) == (request.trace_id, request.span_id)
    told_facts = facts(model)
    assert told_facts["gen_ai.request.model"] == MODEL and told_facts["citable.run"] == "run-7"
    assert told_facts["gen_ai.usage.output_tokens"] > 0 and told_facts["outcome"] == "ok"
    assert model.end_time_unix_nano > model.start_time_unix_nano
    assert b"secret question" not in b"".join(call.body for call in collector.calls)


def test_a_request_has_its_route_and_a_failure_its_kind(collector: LoopbackServer) -> None:
    Client().get("/healthz")
    with pytest.raises(ValueError, match="secret"), metrics.span("broken"):
        raise ValueError("secret words")
    told = spans(collector)
    assert facts(told["request"])["http.route"] == "/healthz"
    assert facts(told["request"])["http.response.status_code"] == 200
    assert facts(told["broken"])["error.type"] == "ValueError" and told["broken"].status.code == 2
    assert b"secret" not in b"".join(call.body for call in collector.calls)


def test_a_collector_that_is_gone_disturbs_nobody(settings: Any) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    settings.OTEL_ENDPOINT = "http://127.0.0.1:9"
    assert start_telemetry() and start_telemetry()
    assert Client().get("/healthz").status_code == 200
    metrics.LISTENERS[:] = [one for one in metrics.LISTENERS if type(one).__name__ != "SpanWatcher"]
    from project import telemetry

    telemetry._started.clear()


def test_without_an_endpoint_nothing_is_loaded(settings: Any) -> None:
    settings.OTEL_ENDPOINT = ""
    before = len(metrics.LISTENERS)
    assert not start_telemetry() and len(metrics.LISTENERS) == before


def test_without_the_extra_the_log_says_what_is_missing(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.OTEL_ENDPOINT = "http://127.0.0.1:9"
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert not start_telemetry()
    assert "requirements-extras.txt" in caplog.text


def test_a_process_that_sends_no_spans_loads_no_sdk() -> None:
    # Another process: this one has loaded it by now.
    code = (
        "import sys, project.telemetry, rag.core.metrics;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    env = {"DJANGO_SETTINGS_MODULE": "project.settings", "PATH": "", "CITABLE_VAR": "/nonexistent"}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0
