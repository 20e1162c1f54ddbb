"""Run a flow and print its answer: ``flow_run NAME MESSAGE [--user U] [--events]``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import CommandError

from agents.core.chat_events import FlowEvent
from agents.flows.runs.start import RunRequest, stream_flow
from agents.flows.versions.versions import find_flow, find_version
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.management.rag_command import RagCommand, named_user
from rag.services.access import scope_of


class Command(RagCommand):
    """Run a flow; print its answer, or each event as a line of JSON. Exit 1 when it failed."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the flow's name")
        parser.add_argument("message", help="what the person says")
        parser.add_argument("--user", help="run with this user's rights, not with all")
        parser.add_argument("--given", default="{}", help="JSON: fields of the state, inputs")
        parser.add_argument("--model", default="", help="provider:model in place of the flow's own")
        parser.add_argument("--number", type=int, help="a version's number; else the active one")
        parser.add_argument("--events", action="store_true", help="print events as JSON lines")

    def handle(self, *args: Any, **options: Any) -> None:
        name, number = options["user"], options["number"]
        scope = scope_of(named_user(name)) if name else Scope.operator()
        flow = find_flow(name=options["name"], scope=scope)
        request = RunRequest(
            flow=flow,
            scope=scope,
            message=options["message"],
            version=None if number is None else find_version(flow=flow, number=number),
            given=_given(options["given"]),
            model=options["model"],
        )
        last = async_to_sync(self._print)(request, options["events"])
        if last.kind == "error":
            raise CommandError(str(RAGError.from_dict(last.data["error"])))

    async def _print(self, request: RunRequest, is_jsonl: bool) -> FlowEvent:
        last = FlowEvent(0, "", "")
        async for last in stream_flow(request=request):
            if is_jsonl:
                self.stdout.write(json.dumps(last.as_dict(), ensure_ascii=False))
            elif last.kind == "node_started":
                self.stderr.write(last.node)
        if not is_jsonl and last.kind == "done":
            self.stdout.write(last.data["answer"])
        elif not is_jsonl and last.kind == "paused":
            self.stdout.write(json.dumps(last.data["reviews"], ensure_ascii=False))
        return last


def _given(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--given is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise CommandError("--given is no JSON object.")
    return given
