"""What is read out of a leftover postmaster.pid."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from project.postgres.server import pid_file_state


def write(cluster: Path, text: str) -> None:
    (cluster / "postmaster.pid").write_text(text)


def test_no_file_is_none(tmp_path: Path) -> None:
    assert pid_file_state(tmp_path) == "none"
    assert pid_file_state(tmp_path / "absent") == "none"


@pytest.mark.parametrize("text", ["", "\n", "abc\n", "-5\n", "é\n"])
def test_a_file_without_a_pid_is_foreign(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    assert pid_file_state(tmp_path) == "foreign"


def test_the_pid_of_an_ended_process_is_gone(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    write(tmp_path, f"{ended.pid}\n{tmp_path}\n")
    assert pid_file_state(tmp_path) == "gone"


def test_an_unreaped_process_is_a_zombie(tmp_path: Path) -> None:
    zombie = subprocess.Popen(["true"])
    time.sleep(0.2)
    write(tmp_path, str(zombie.pid))
    assert pid_file_state(tmp_path) == "zombie"
    zombie.wait()


def test_another_program_is_foreign_even_in_the_cluster_s_folder(tmp_path: Path) -> None:
    write(tmp_path, str(os.getpid()))
    assert pid_file_state(tmp_path) == "foreign"
    other = subprocess.Popen(["sleep", "30"], cwd=tmp_path)
    try:
        write(tmp_path, str(other.pid))
        assert pid_file_state(tmp_path) == "foreign"
    finally:
        other.kill()
        other.wait()


def test_a_postgres_is_live_only_in_its_own_cluster(tmp_path: Path) -> None:
    cluster, elsewhere = tmp_path / "a", tmp_path / "b"
    cluster.mkdir()
    elsewhere.mkdir()
    sleep = shutil.which("sleep")
    assert sleep
    program = tmp_path / "postgres"
    shutil.copy(sleep, program)
    server = subprocess.Popen([str(program), "30"], cwd=cluster)
    try:
        for folder in (cluster, elsewhere):
            write(folder, f"{server.pid}\n")
        assert pid_file_state(cluster) == "live"
        assert pid_file_state(elsewhere) == "foreign"
    finally:
        server.kill()
        server.wait()


def test_a_name_with_parentheses_is_read_to_its_end(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep
    program = tmp_path / "a) Z (b"
    shutil.copy(sleep, program)
    process = subprocess.Popen([str(program), "30"])
    try:
        write(tmp_path, str(process.pid))
        assert pid_file_state(tmp_path) == "foreign"
    finally:
        process.kill()
        process.wait()
