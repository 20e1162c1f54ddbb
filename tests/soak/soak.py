"""Soak test: ``python -m tests.soak.soak --seconds 3600``, ``make soak``.

People upload, delete, search, chat and reindex, while web server, worker, parsers and PostgreSQL are
killed, the disk of the originals runs full and more ask at once than the pool has connections.
Every minute and at the end: each acknowledged upload is there once and found by a search, nothing
deleted is found, the doctor finds no error, no file is left that the upkeep would not remove. The clock is not
moved: that needs a namespace of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.soak.installation import Installation, installation

# As a restart and a taken-over job may last on a busy machine.
SETTLE_S = 240
DOCTOR = """
import django, json
django.setup()
from django.conf import settings
from rag import models
from rag.services.operations import remove_orphans, run_checks
wrong = [f"{f.check}: {f.what}" for _, _, found in run_checks() for f in found
  if f.level == "error" and f.check != "disk"]
remove_orphans(older_than_s=0)
kept = set(models.File.objects.exclude(content="").values_list("content", flat=True))
print(json.dumps({"wrong": wrong, "kept": sorted(kept)}))
"""


@dataclass
class Soak:
    """What was acknowledged so far, what was done, and what is wrong."""

    site: Installation
    until: float
    alive: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    figures: defaultdict[int, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    lock: threading.Lock = field(default_factory=threading.Lock)
    # Held while the invariants are looked at: nobody changes or kills anything.
    calm: threading.Event = field(default_factory=threading.Event)

    def upload(self) -> None:
        """Upload a document with a word that no other has."""
        word = f"zq{random.getrandbits(48):012x}"
        text = f"The part {word} is checked every week. " + "It turns slowly. " * 40
        files = [("files", (f"{word}.txt", text.encode()))]
        answer = self.site.call("POST", "/api/files", data={"store": "soak"}, files=files)
        self.done[f"upload {answer.status_code}"] += 1
        if answer.status_code == 201:
            with self.lock:
                self.alive[word] = int(answer.json()["results"][0]["file"]["id"])

    def delete(self) -> None:
        """Delete one of the documents."""
        with self.lock:
            if len(self.alive) < 20:
                return
            word = random.choice(list(self.alive))
            file_id = self.alive.pop(word)
        try:
            answer = self.site.call("DELETE", f"/api/files/{file_id}")
        except httpx2.TransportError:
            # Nobody knows whether it is gone: it is asked for again.
            with self.lock:
                self.alive[word] = file_id
            raise
        self.done[f"delete {answer.status_code}"] += 1
        with self.lock:
            if answer.status_code in (204, 404):
                self.deleted.add(word)
            else:
                self.alive[word] = file_id

    def search(self) -> None:
        """Search for one of the deleted words: nothing of it may be found."""
        with self.lock:
            word = random.choice(list(self.deleted or {"nothing"}))
        if any(word in json.dumps(hit) for hit in self.hits(word)):
            self.wrong.append(f"{word} was deleted and is found")

    def hits(self, word: str) -> list[Any]:
        """Return the hits of a word."""
        body = {"query": word, "stores": ["soak"]}
        answer = self.site.call("POST", "/api/rag/retrieve", json=body)
        self.done[f"search {answer.status_code}"] += 1
        return answer.json()["hits"] if answer.status_code == 200 else []

    def chat(self) -> None:
        """Ask an agent, and read the whole answer."""
        body = {"message": "What is checked every week?", "stream": False, "stores": ["soak"]}
        answer = self.site.call("POST", "/api/agents/rag/chat", json=body)
        self.done[f"chat {answer.status_code}"] += 1

    def reindex(self) -> None:
        """Make the words of the index anew."""
        body = {"store": "soak", "what": "lexical"}
        self.done[f"reindex {self.site.call('POST', '/api/reindex', json=body).status_code}"] += 1
        time.sleep(20)

    def crowd(self) -> None:
        """Ask more at once than there are connections."""
        with ThreadPoolExecutor(24) as pool:
            list(pool.map(lambda _: quietly(self.search), range(24)))
        time.sleep(15)

    def kill(self) -> None:
        """Kill one of the processes, the database's in one of six cases."""
        time.sleep(random.uniform(2, 8))
        pids = self.site.children()
        pid = self.site.postmaster() if random.random() < 1 / 6 else random.choice(pids or [0])
        if pid and not self.calm.is_set():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.done["kill"] += 1

    def fill_disk(self) -> None:
        """Leave no byte for originals for five seconds."""
        time.sleep(25)
        ballast = self.site.media / ".ballast"
        try:
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass
            self.done["full disk"] += 1
            time.sleep(5)
        finally:
            ballast.unlink(missing_ok=True)

    def measure(self) -> None:
        """Note memory and handles of the supervisor and its programs."""
        time.sleep(5)
        assert self.site.supervisor is not None
        for pid in (self.site.supervisor.pid, *self.site.children()):
            with suppress(OSError, IndexError, ValueError):
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                handles = len(list(Path(f"/proc/{pid}/fd").iterdir()))
                self.figures[pid].append((pages * 4 // 1024, handles))

    def work(self, deed: Callable[[], None]) -> None:
        """Do it again and again; who is away for a moment is asked again."""
        while time.monotonic() < self.until:
            if self.calm.is_set():
                time.sleep(0.2)
                continue
            try:
                quietly(deed)
            except Exception as error:
                self.wrong.append(f"{deed.__name__}: {error!r}")
                raise
            time.sleep(random.uniform(0.05, 0.6))

    def check(self) -> None:
        """Wait until it is quiet, and look at all that must hold."""
        self.calm.set()
        try:
            self.site.wait_ready()
            with self.lock:
                missing = dict(self.alive)
            until = time.monotonic() + SETTLE_S
            while missing and time.monotonic() < until:
                missing = {word: pk for word, pk in missing.items() if not self._is_found(word)}
                time.sleep(1 if missing else 0)
            for word, pk in missing.items():
                # Late, refused or lost: its row says which.
                row = self.site.call("GET", f"/api/files/{pk}").text[:2000]
                self.wrong.append(f"{word} (file {pk}) is not found: {row}")
            told = json.loads(self.site.python(DOCTOR).splitlines()[-1])
            self.wrong += told["wrong"]
            self._check_disk(set(told["kept"]))
        finally:
            self.calm.clear()

    def _is_found(self, word: str) -> bool:
        with suppress(httpx2.TransportError, KeyError, ValueError):
            named = {hit["source"]["id"] for hit in self.hits(word) if word in hit["content"]}
            if len(named) > 1:
                self.wrong.append(f"{word} is there {len(named)} times")
            return len(named) == 1
        return False

    def _check_disk(self, kept: set[str]) -> None:
        media = self.site.media
        there = {str(one.relative_to(media)) for one in media.rglob("*") if one.is_file()}
        self.wrong += [f"{name} has no row" for name in sorted(there - kept)[:10]]
        self.wrong += [f"{name} has no bytes" for name in sorted(kept - there)[:10]]
        left = [one for one in (self.site.var / "incoming").glob("**/*") if one.is_file()]
        self.wrong += [f"{one.name} was left in incoming" for one in left[:10]]

    def report(self) -> str:
        """Return what was done, and how memory and handles went in the longest lives."""
        lines = [f"{name:20}{n:8}" for name, n in sorted(self.done.items())]
        lives = sorted(self.figures.values(), key=len, reverse=True)[:4]
        for life in lives:
            half = len(life) // 2
            first, last = life[min(3, len(life) - 1) : half + 1], life[half:]
            lines.append(
                f"{len(life) * 5:5} s of life: {max(m for m, _ in first or last)} →"
                f" {max(m for m, _ in last)} MB, {max(h for _, h in first or last)} →"
                f" {max(h for _, h in last)} handles"
            )
        lines += [f"WRONG: {one}" for one in dict.fromkeys(self.wrong)]
        return "\n".join(
            [*lines, f"{len(self.alive)} documents alive, {len(self.deleted)} deleted"]
        )


def quietly(deed: Callable[[], None]) -> None:
    """Do what may meet a killed server."""
    with suppress(httpx2.TransportError):
        deed()


def main() -> None:
    """Run it; end with 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600, help="how long; default an hour")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        var = Path(folder) / "var"
        var.mkdir(mode=0o711)
        with installation(var) as site:
            soak = Soak(site, time.monotonic() + seconds)
            deeds = [soak.upload, soak.upload, soak.delete, soak.search, soak.chat, soak.reindex]
            deeds += [soak.crowd, soak.kill, soak.measure]
            deeds += [soak.fill_disk] if site.is_small else []
            threads = [threading.Thread(target=soak.work, args=(one,)) for one in deeds]
            for thread in threads:
                thread.start()
            while time.monotonic() < soak.until:
                time.sleep(min(60, max(1, soak.until - time.monotonic())))
                soak.check()
            for thread in threads:
                thread.join()
            soak.check()
            sys.stdout.write(f"{soak.report()}\n")
            raise SystemExit(bool(soak.wrong))


if __name__ == "__main__":
    main()
