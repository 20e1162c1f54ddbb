"""How many of our files an agent's answer and a retrieval pass: fewer is a shorter way."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from django.db import connection

from benchmarks.house import ROOT

# As wanted. Which threads run within an answer varies by a file or two.
MOST = {"an agent's answer": 100, "POST /api/rag/retrieve": 48}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_request_passes_no_more_files_than_before() -> None:
    # A process of its own: its threads are begun under the recorder.
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.house",
            "--paths",
            str(connection.settings_dict["NAME"]),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"^own files that (.+) passes +\d+ +(\d+)", done.stdout, re.MULTILINE))
    assert set(found) == set(MOST)
    assert {name: int(n) for name, n in found.items() if int(n) > MOST[name]} == {}
