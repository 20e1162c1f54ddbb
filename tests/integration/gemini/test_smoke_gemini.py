"""The walk through the real Gemini, taken through the faked one."""

from __future__ import annotations

import os
import subprocess

from tests.fakes.gemini_server import GeminiServer, error
from tests.fakes.loopback import Fault
from tests.forked_processes import run_python

KEY = "AIza-smoke-0123456789"


def walk(**environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("GEMINI_")}
    return run_python("-m", "tests.smoke_gemini", env={**known, **environment})


def test_without_a_key_it_says_that_it_was_skipped() -> None:
    done = walk()
    assert (done.returncode, done.stdout) == (0, "skipped: GEMINI_API_KEY is not set\n")


def test_it_walks_all_the_way_and_cleans_up() -> None:
    with GeminiServer() as server:
        server.key = KEY
        done = walk(GEMINI_API_KEY=KEY, GEMINI_BASE_URL=server.url)
        assert done.stdout.endswith("passed\n"), done.stdout + done.stderr
        assert (done.returncode, done.stderr) == (0, "")
        assert "File Search is served by v1beta (0 stores)" in done.stdout
        assert "File Search is served by v1 (0 stores)" in done.stdout
        assert server.files.stores == {} and server.files.files == {}
        assert KEY not in done.stdout


def test_it_takes_the_version_that_serves_and_fails_without_leaving_a_store() -> None:
    missing = error(404, "NOT_FOUND", "Not found for this API version.").body
    with GeminiServer() as server:
        server.key = KEY
        server.fail(Fault(404, missing, on="GET /v1beta/fileSearchStores"))
        server.files.modes.document = "failed"
        done = walk(GEMINI_API_KEY=KEY, GEMINI_BASE_URL=server.url)
        assert done.returncode == 1
        assert "File Search is not served by v1beta" in done.stdout
        assert "failed: " in done.stdout and "cannot index “藍色水壺 kettle.txt”" in done.stdout
        assert server.files.stores == {}
        assert all("/v1/" in call.path for call in server.calls[1:])
        server.key = "another"
        done = walk(GEMINI_API_KEY=KEY, GEMINI_BASE_URL=server.url)
        assert done.returncode == 1
        assert "failed: no API version serves File Search for this key" in done.stdout
        assert KEY not in done.stdout + done.stderr
