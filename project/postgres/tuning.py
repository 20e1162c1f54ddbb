"""PostgreSQL tuning: server options that fit the memory of the machine or its cgroup."""

from __future__ import annotations

import os
from pathlib import Path

_MB = 1024 * 1024
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_SHARED_MEMORY = Path("/dev/shm")
# Of the C library: a server process keeps the memory of its last statement. Given back and taken
# again at each search it costs 300 page faults, a fifth of the search.
MEMORY_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(32 * _MB),
    "MALLOC_MMAP_THRESHOLD_": str(8 * _MB),
}


def tuned_options(memory_mb: int | None = None) -> dict[str, str]:
    """Return options for a server that shares a machine of ``memory_mb`` MB (default: this one)."""
    total_mb = _memory_mb() if memory_mb is None else memory_mb
    maintenance_mb = _clamp(total_mb // 16, 64, 1024)
    return {
        "shared_buffers": f"{_clamp(total_mb // 4, 128, 8192)}MB",
        "effective_cache_size": f"{_clamp(total_mb // 2, 256, 65536)}MB",
        "maintenance_work_mem": f"{maintenance_mb}MB",
        "max_wal_size": "4GB",
        "jit": "off",
        "random_page_cost": "1.1",
        "dynamic_shared_memory_type": _shared_memory_type(maintenance_mb),
    }


def _shared_memory_type(maintenance_mb: int) -> str:
    # A container has 64 MB of /dev/shm, and a parallel HNSW build allocates maintenance_work_mem.
    if not _SHARED_MEMORY.is_dir():
        return "posix"
    status = os.statvfs(_SHARED_MEMORY)
    roomy = status.f_blocks * status.f_frsize >= 2 * maintenance_mb * _MB
    return "posix" if roomy else "mmap"


def _memory_mb() -> int:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MB
    limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip() if _CGROUP_LIMIT.exists() else "max"
    return min(machine, int(limit) // _MB) if limit.isdigit() else machine


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
