"""Connector ``git``: the documents of a repository at a branch, by the git program.

A bare copy is kept with the connection, so that a fetch brings only what is new in the history.
Nothing is checked out and no hook runs. Links and submodules are passed over: they lead out of the
tree. The host's address is checked, and git is held to it.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

from django.utils.translation import gettext_noop

from rag.core.connectors import ConnectorContext, DocumentChanges, OriginDocument
from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    LimitError,
    ProviderError,
    RAGError,
)
from rag.core.options import option
from rag.core.plugins import register

LOOK_S = 0.1
_BRANCH = re.compile(r"(?!-)[\w./-]{1,200}")
_HASH = re.compile(r"[0-9a-f]{40,64}")
_PORTS = {"http": 80, "https": 443}
_DOCUMENTS = (
    "*.md",
    "*.markdown",
    "*.rst",
    "*.txt",
    "*.adoc",
    "*.html",
    "*.htm",
    "*.pdf",
    "*.docx",
)


@register("connector")
class GitConnector:
    """The documents of a repository at one branch; its history brings only what changed."""

    name = "git"
    label = gettext_noop("Git repository")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which repository and branch, which of its files, and how they are opened."""

        repository: str = option(
            help="Address of the repository (https), or its folder on the server."
        )
        branch: str = option("", help="Branch; empty: the one that the repository shows first.")
        include: list[str] = option(
            [*_DOCUMENTS], help="Names or paths that are taken, one a line, * for any text."
        )
        folder: str = option("", help="Only what is in this folder of the repository.")
        link_base: str = option(
            "",
            help="Web address under which people see the files, such as"
            " https://host/team/repository/blob/main; empty: made from the repository's.",
        )
        secret: str = option("", help="Name of the secret: an access token.", is_secret=True)
        auth_user: str = option("git", help="User name that goes with the token.")
        max_megabytes: int = option(
            1000, help="Most megabytes of the repository's copy.", minimum=1, maximum=100_000
        )

    def __init__(self, options: Options) -> None:
        self._options = options
        parts = urlsplit(options.repository)
        self._is_remote = "://" in options.repository
        is_web = parts.scheme in _PORTS and parts.hostname and parts.username is None
        if not options.repository.strip() or (self._is_remote and not is_web):
            raise InvalidInputError(
                "“{repository}” is no repository that can be followed.",
                hint="Write an address that begins with https://, without a password, or a folder.",
                repository=options.repository,
            )
        if options.branch and not _BRANCH.fullmatch(options.branch):
            raise InvalidInputError("“{branch}” is no branch.", branch=options.branch)
        self._copy = Path()
        self.origin_name = Path(parts.path).name.removesuffix(".git")

    def __str__(self) -> str:
        return self._options.repository

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield the documents of the branch; blobs are their marks."""
        head = self._fetched(context)
        context.cursor = head
        tree = self._git(context, "ls-tree", "-r", "-l", "-z", "--full-tree", head)
        for row in filter(None, tree.decode("utf-8", "replace").split("\0")):
            facts, _, path = row.partition("\t")
            mode, _, blob, size = facts.split()
            document = OriginDocument(self._relative(path), mark=blob)
            if not self._takes(path) or document.is_hidden:
                continue
            if mode not in ("100644", "100755"):
                reason = RAGError("It is a link or another repository, and is not followed.")
                context.skip(document.path, reason)
                continue
            yield OriginDocument(document.path, int(size), blob, self._url(path, head))

    def since(self, context: ConnectorContext) -> DocumentChanges | None:
        """Return nothing changed where the branch is where it was; else only a list can tell."""
        last = context.cursor
        return (
            DocumentChanges() if _HASH.fullmatch(last) and self._fetched(context) == last else None
        )

    @contextmanager
    def fetch(self, document: OriginDocument, context: ConnectorContext) -> Iterator[IO[bytes]]:
        """Open one document of the copy."""
        yield io.BytesIO(self._git(context, "cat-file", "blob", document.mark))

    def permissions(self, document: OriginDocument) -> None:
        """Return None: git knows no readers."""

    def _takes(self, path: str) -> bool:
        folder = self._options.folder.strip("/")
        if folder and not path.startswith(f"{folder}/"):
            return False
        name = path.rpartition("/")[2].lower()
        patterns = [one.lower() for one in self._options.include]
        return any(fnmatch(name, one) or fnmatch(path.lower(), one) for one in patterns)

    def _relative(self, path: str) -> str:
        folder = self._options.folder.strip("/")
        return path.removeprefix(f"{folder}/") if folder else path

    def _url(self, path: str, head: str) -> str:
        base = self._options.link_base.rstrip("/")
        if not base and self._is_remote:
            branch = self._options.branch or "HEAD"
            base = f"{self._options.repository.rstrip('/').removesuffix('.git')}/blob/{branch}"
        return f"{base}/{quote(path)}" if base.startswith(("http://", "https://")) else ""

    def _fetched(self, context: ConnectorContext) -> str:
        """Bring the copy to the branch, once a sync, and return its commit."""
        if self._copy != Path():
            return self._head(context)
        self._copy = context.kept / "repository.git"
        if not (self._copy / "HEAD").exists():
            shutil.rmtree(self._copy, ignore_errors=True)
            self._git(context, "init", "--bare", "--quiet", str(self._copy), is_inside=False)
        where = self._options.repository
        if not self._is_remote:
            where = str(context.folder(where).resolve())
        wanted = f"refs/heads/{self._options.branch}" if self._options.branch else "HEAD"
        try:
            self._git(
                context,
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
                "--force",
                "--no-recurse-submodules",
                where,
                f"+{wanted}:refs/citable/head",
            )
        except LimitError:
            shutil.rmtree(self._copy, ignore_errors=True)
            raise
        return self._head(context)

    def _head(self, context: ConnectorContext) -> str:
        return self._git(context, "rev-parse", "refs/citable/head").decode().strip()

    def _git(self, context: ConnectorContext, *words: str, is_inside: bool = True) -> bytes:
        program = shutil.which("git")
        if program is None:
            raise ConfigurationError("There is no git here.", hint="Install the program git.")
        inside = [f"--git-dir={self._copy}"] if is_inside else []
        settings = self._settings(context) if words[0] == "fetch" else {}
        # Their number and values go by the environment, where no list of processes shows them.
        given = {"GIT_CONFIG_COUNT": str(len(settings))}
        for n, (name, value) in enumerate(settings.items()):
            given |= {f"GIT_CONFIG_KEY_{n}": name, f"GIT_CONFIG_VALUE_{n}": value}
        environment = {
            "PATH": f"{Path(program).parent}{os.pathsep}{os.defpath}",
            "HOME": str(context.scratch),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "http:https" if self._is_remote else "file",
            **given,
        }
        return self._run([program, *inside, *words], environment, context)

    def _settings(self, context: ConnectorContext) -> dict[str, str]:
        settings = {
            "core.hooksPath": "/dev/null",
            # A repository in a folder may belong to whoever edits it.
            "safe.directory": "*",
            "gc.auto": "0",
        }
        if self._is_remote:
            parts = urlsplit(self._options.repository)
            port = parts.port or _PORTS[parts.scheme]
            addresses = ",".join(
                f"[{one}]" if ":" in one else one
                for one in context.addresses(self._options.repository)
            )
            settings |= {
                "http.followRedirects": "false",
                "http.proxy": "",
                "http.curloptResolve": f"{parts.hostname}:{port}:{addresses}",
            }
            if self._options.secret:
                secret = context.secret(self._options.secret, url=self._options.repository).strip()
                pair = b64encode(f"{self._options.auth_user}:{secret}".encode()).decode()
                settings["http.extraHeader"] = f"Authorization: Basic {pair}"
        return settings

    def _run(
        self, command: Sequence[str], environment: dict[str, str], context: ConnectorContext
    ) -> bytes:
        limit, is_fetch = self._options.max_megabytes * 1_000_000, "fetch" in command
        pause_s = LOOK_S if is_fetch else 0.002
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as wrong:
            process = subprocess.Popen(
                command, stdout=said, stderr=wrong, env=environment, start_new_session=True
            )
            try:
                while process.poll() is None:
                    time.sleep(pause_s)
                    context.tell(0)
                    if is_fetch and _size(self._copy) > limit:
                        raise LimitError(
                            "The repository is larger than {limit} MB.",
                            hint="Raise the limit (max_megabytes), or follow a smaller one.",
                            limit=self._options.max_megabytes,
                        )
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            said.seek(0)
            wrong.seek(0)
            if process.returncode:
                raise ProviderError(
                    "git could not read “{repository}”: {reason}.",
                    hint="Check the address, the branch and the secret.",
                    repository=self,
                    reason=_reason(wrong.read(2000)),
                )
            return said.read()


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).lstat().st_size
            except FileNotFoundError:
                # git removes what it no longer needs.
                continue
    return total


def _reason(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    return lines[-1].removeprefix("fatal: ").rstrip(".")[:300]
