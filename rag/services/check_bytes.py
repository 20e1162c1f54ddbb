"""Original files on disk and their rows. Out: findings. Folders are listed, no file is opened."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.files.storage import default_storage

from rag import models
from rag.services.doctor_finding import Finding
from rag.services.recover import ORPHAN_AFTER_S, remove_orphans


def original_bytes() -> Iterator[Finding]:
    """Tell files whose bytes are gone, and bytes that no file names."""
    named: dict[str, list[tuple[int, str]]] = {}
    rows = models.File.objects.exclude(content="").order_by("pk").values_list("pk", "content")
    for pk, content in rows.iterator(chunk_size=5000):
        folder, _, name = content.rpartition("/")
        named.setdefault(folder, []).append((pk, name))
    n_alone, missing = 0, list[int]()
    for folder in sorted({*named, *_folders()}):
        there = set(default_storage.listdir(folder)[1]) if default_storage.exists(folder) else set()
        ours = named.get(folder, [])
        missing += [pk for pk, name in ours if name not in there]
        n_alone += len(there - {name for _, name in ours})
    if missing:
        yield Finding(
            "bytes", "error", f"the bytes of {len(missing)} files are gone",
            "Upload them again or restore the folder; texts and chunks are still there.",
            facts={"files": missing[:20]},
        )  # fmt: skip
    if n_alone:
        yield Finding(
            "bytes", "note", f"{n_alone} files on disk belong to nothing",
            f"They are removed when they are {ORPHAN_AFTER_S / 3600:.0f} hours old: an upload may"
            " be at work.",
            facts={"files": n_alone}, fix=_remove,
        )  # fmt: skip


def _folders() -> list[str]:
    if not default_storage.exists("stores"):
        return []
    return [f"stores/{name}" for name in default_storage.listdir("stores")[0]]


def _remove() -> str:
    return f"removed {remove_orphans()} old files that belong to nothing"
