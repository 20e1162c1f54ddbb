"""Settings: each name is explained, the key is made once, the typed object follows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from django.conf import settings
from django.test import override_settings

from rag.conf import conf

ROOT = Path(__file__).resolve().parents[3]
KEY = "import project.settings as s; print(s.SECRET_KEY)"


def test_every_environment_name_is_in_the_readme_and_the_reverse() -> None:
    source = (ROOT / "project" / "settings.py").read_text(encoding="utf-8")
    read = set(re.findall(r'env\.\w+\(\s*"([A-Z0-9_]+)"', source))
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Configuration")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    told = set(re.findall(r"`([A-Z0-9_]+)`", " ".join(rows)))
    assert read == told


def test_the_typed_settings_follow_the_settings() -> None:
    before = conf()
    with override_settings(RAG=settings.RAG | {"TIMEOUT_S": 1.5}):
        assert conf().timeout_s == 1.5
    assert conf() == before


def test_processes_that_start_at_once_share_one_key(tmp_path: Path) -> None:
    environment = {"CITABLE_VAR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", KEY]
    started = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    keys = {process.communicate(timeout=60)[0] for process in started}
    assert len(keys) == 1
    assert len(keys.pop().strip()) > 40
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("secret_key*")] == ["secret_key"]


def test_behind_tls_djangos_deployment_checks_find_nothing(tmp_path: Path) -> None:
    environment = {"CITABLE_VAR": str(tmp_path), "PATH": "/usr/bin:/bin", "HTTPS": "1"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
