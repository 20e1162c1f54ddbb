"""Server options follow the machine's memory within bounds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.postgres import tuning as postgres_tuning
from project.postgres.tuning import tuned_options


def megabytes(value: str) -> int:
    assert value.endswith("MB")
    return int(value.removesuffix("MB"))


@given(st.integers(64, 10_000_000))
def test_sizes_stay_within_their_bounds(memory_mb: int) -> None:
    options = tuned_options(memory_mb)
    assert 128 <= megabytes(options["shared_buffers"]) <= 8192
    assert 64 <= megabytes(options["maintenance_work_mem"]) <= 1024
    assert 256 <= megabytes(options["effective_cache_size"]) <= 65536


def test_a_machine_of_eight_gigabytes() -> None:
    options = tuned_options(8192)
    assert options["shared_buffers"] == "2048MB"
    assert options["maintenance_work_mem"] == "512MB"
    assert options["jit"] == "off"
    assert options["random_page_cost"] == "1.1"
    assert options["max_wal_size"] == "4GB"


@pytest.mark.parametrize(("shm_mb", "expected"), [(64, "mmap"), (1024, "posix")])
def test_little_shared_memory_is_not_relied_upon(
    monkeypatch: pytest.MonkeyPatch, shm_mb: int, expected: str
) -> None:
    status = SimpleNamespace(f_blocks=shm_mb, f_frsize=1024 * 1024)
    monkeypatch.setattr(postgres_tuning.os, "statvfs", lambda path: status)
    assert tuned_options(8192)["dynamic_shared_memory_type"] == expected


def test_a_container_s_limit_counts_as_its_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: postgres_tuning.Path
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(postgres_tuning, "_CGROUP_LIMIT", limit)
    limit.write_text(f"{1024 * 1024 * 1024}\n")
    assert megabytes(tuned_options()["shared_buffers"]) == 256
    limit.write_text("max\n")
    assert megabytes(tuned_options()["shared_buffers"]) > 128
