"""Ingest benchmark: files to searchable chunks, by a worker.

Run ``python -m benchmarks.ingest [--samples DIR] [--mb N | --full]``. Works in a database and a
folder of its own. ``--full`` takes a text of 100 MB through the fast model too, for its memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

SAMPLES = Path("../shared/samples")
FOLDER = tempfile.TemporaryDirectory(prefix="citable-bench-")
# Read by the settings of this process and of the worker that it starts.
os.environ["MEDIA_ROOT"] = FOLDER.name

from benchmarks.record import Report  # noqa: E402
from benchmarks.scratch import scratch_database  # noqa: E402

# isort: split
# Django is set up by now, so that models can be imported.
from benchmarks.synthetic import SyntheticCorpus  # noqa: E402
from rag import models  # noqa: E402
from rag.core.errors import RAGError  # noqa: E402
from rag.services.files.archives import collect_items  # noqa: E402
from rag.services.files.upload import upload_file  # noqa: E402
from rag.services.stores.lifecycle import create_store  # noqa: E402

FAST_MODEL = "use:multilingual-v3"


def measure_samples(report: Report, folder: Path) -> None:
    """Print pages and chunks a second over a folder of small files of all kinds."""
    if not folder.is_dir():
        raise FileNotFoundError(f"There are no samples in {folder}; name a folder with --samples.")
    ids = take("samples", [str(folder)])
    spent = run_worker(ids)
    files = models.File.objects.light().filter(pk__in=ids)
    done = [file for file in files if file.status == models.File.Status.COMPLETED]
    n_pages = sum(len(file.pages) or 1 for file in models.File.objects.filter(pk__in=ids))
    n_chunks = sum(file.n_chunks for file in done)
    report.add("samples: files completed", len(done), is_kept=False)
    report.add("samples: files refused with a reason", len(ids) - len(done), is_kept=False)
    report.add("samples: pages/s", n_pages / spent["wall_s"])
    report.add("samples: chunks/s", n_chunks / spent["wall_s"])
    report.add("samples: a parse child at most, MB", spent["child_mb"], most=1500)


def measure_text(report: Report, mb: float) -> None:
    """Print chunks a second over one large text, and how much of the time the model works."""
    spent, n_chunks = index_text(f"text of {mb:g} MB", mb, model="")
    report.add("large text: chunks/s", n_chunks / spent["wall_s"])
    report.add("large text: share of the time in the model", spent["embed_share"], least=0.8)
    report.add("large text: CPU in use, of all cores", spent["cpu_share"])
    report.add("large text: the worker at most, MB", spent["worker_mb"], most=700)


def measure_limit(report: Report) -> None:
    """Print the memory that the largest allowed text takes."""
    spent, n_chunks = index_text("text of 100 MB", 99.9, model=FAST_MODEL)
    report.add("100 MB, fast model: chunks/s", n_chunks / spent["wall_s"])
    report.add("100 MB, fast model: the worker at most, MB", spent["worker_mb"], most=700)
    report.add("100 MB, fast model: the parse child at most, MB", spent["child_mb"], most=1500)


def index_text(name: str, mb: float, *, model: str) -> tuple[dict[str, float], int]:
    """Return what indexing a made-up text of ``mb`` MB took, and its number of chunks."""
    path = Path(FOLDER.name) / f"{name}.txt"
    with path.open("w", encoding="utf-8") as file:
        for text in _texts(mb * 1e6):
            file.write(f"{text}\n\n")
    (file_id,) = take(name, [str(path)], model=model)
    spent = run_worker([file_id])
    row = models.File.objects.light().get(pk=file_id)
    if row.status != models.File.Status.COMPLETED:
        raise RAGError.from_dict(row.error or {})
    return spent, row.n_chunks


def _texts(n_bytes: float) -> Iterator[str]:
    corpus = SyntheticCorpus()
    written = 0
    while written < n_bytes:
        for passage in corpus.passages(60):
            written += len(passage.text.encode()) + 2
            if written >= n_bytes:
                return
            yield passage.text


def take(name: str, paths: Sequence[str], *, model: str = "") -> list[int]:
    """Put files into a new store and return their ids; refused ones are told."""
    store = create_store(name=name, embedding_model=model)
    ids: list[int] = []
    for item in collect_items(paths=list(paths)):
        try:
            with item.open() as content:
                taken = upload_file(store=store, name=item.name, content=content)
        except RAGError as error:
            print(f"{item.name}: {error}", file=sys.stderr)
            continue
        ids += [taken.file.pk] if taken.is_new else []
    return ids


def run_worker(ids: Sequence[int]) -> dict[str, float]:
    """Return what a worker process of its own took to work the files off."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ingest_worker", *map(str, ids)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    spent: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return spent


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--mb", type=float, default=2.0, help="size of the large text")
    parser.add_argument("--full", action="store_true", help="a text of 100 MB too")
    options = parser.parse_args()
    report = Report("ingest, with 100 MB" if options.full else "ingest")
    try:
        with FOLDER, scratch_database():
            measure_samples(report, options.samples)
            measure_text(report, options.mb)
            if options.full:
                measure_limit(report)
    except (RAGError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
