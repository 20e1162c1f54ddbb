"""Figures with their goals: printed as they come, and kept as a row of docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
FIXED = ("date", "commit", "machine")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; ``goal`` is what it is wanted to reach, in words, if anything."""

    name: str
    value: float
    goal: str
    is_kept: bool

    @property
    def text(self) -> str:
        """Return the value, as exact as its size deserves."""
        if self.value == int(self.value) or abs(self.value) >= 100:
            return f"{self.value:.0f}"
        return f"{self.value:.3f}" if abs(self.value) < 1 else f"{self.value:.1f}"


class Report:
    """Collects the figures of one benchmark; nothing is lost when a later one fails."""

    def __init__(self, section: str) -> None:
        self.section = section
        self.figures: list[Figure] = []

    def add(
        self,
        name: str,
        value: float,
        *,
        least: float | None = None,
        most: float | None = None,
        is_kept: bool = True,
    ) -> None:
        """Print a figure, beside the goal to be at least or at most something.

        Details (``is_kept`` False) are printed only and have no place in the row.
        """
        goal = "" if least is None else f"≥ {least:g}"
        goal = goal if most is None else f"≤ {most:g}"
        is_met = (least is None or value >= least) and (most is None or value <= most)
        figure = Figure(name, float(value), goal, is_kept)
        self.figures.append(figure)
        verdict = "" if not goal else "reached" if is_met else "MISSED"
        print(f"  {name:<52}{figure.text:>10}   {goal:<9} {verdict}", flush=True)

    def save(self) -> None:
        """Append a row to the section's table; other columns than last time start a new table."""
        kept = [figure for figure in self.figures if figure.is_kept]
        names = [*FIXED, *(figure.name for figure in kept)]
        goals = ["goal", "", "", *(figure.goal for figure in kept)]
        row = [_today(), _commit(), _machine(), *(figure.text for figure in kept)]
        page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Benchmarks\n"
        PAGE.write_text(add_row(page, self.section, names, goals, row), encoding="utf-8")
        print(f"A row of docs/benchmarks.md holds these figures ({self.section}).")


def add_row(page: str, section: str, names: list[str], goals: list[str], row: list[str]) -> str:
    """Return ``page`` with ``row`` under the heading ``section``, below a table of ``names``."""
    lines = page.rstrip("\n").split("\n")
    heading, header = f"## {section}", _line(names)
    if heading not in lines:
        lines += ["", heading]
    start = lines.index(heading) + 1
    end = next((i for i in range(start, len(lines)) if lines[i].startswith("## ")), len(lines))
    while end > start and not lines[end - 1].strip():
        end -= 1
    tables = [i for i in range(start, end) if lines[i] == header]
    # Only the section's last table goes on, so that rows stay in order of time.
    rest = lines[tables[-1] : end] if tables else []
    if not rest or not all(line.startswith("|") for line in rest):
        lines[end:end] = ["", header, _line(["---"] * len(names)), _line(goals)]
        end += 4
    lines.insert(end, _line(row))
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    short = git("rev-parse", "--short", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    return f"{short}+" if changed else short


def _machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        cpu = models[0] if models else cpu
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores of {cpu}, {memory_gb:.0f} GB"
