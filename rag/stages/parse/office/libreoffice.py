"""LibreOffice as a converter, where it is installed: old formats to those that are read here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.core.errors import DocumentError

TIMEOUT_S = 60
# What documents that it converted call their parser.
CONVERTED = "libreoffice/4"


def find_libreoffice() -> str | None:
    """Return its program, None where it is not installed."""
    return shutil.which("soffice") or shutil.which("libreoffice")


@contextmanager
def converted(
    office: str, path: Path, name: str, *, suffix: str, wanted: str
) -> Iterator[Path | None]:
    """Lend the file in another format; None where it could not be converted.

    Raises DocumentError when it takes longer than a minute.
    """
    with TemporaryDirectory() as folder:
        source = Path(folder) / f"source{suffix}"
        shutil.copyfile(path, source)
        command = [
            office,
            f"-env:UserInstallation=file://{folder}/profile",
            "--headless",
            "--norestore",
            "--convert-to",
            wanted,
            "--outdir",
            folder,
            str(source),
        ]
        # It stays in this process's group, which whoever started it kills as a whole.
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise DocumentError(
                "Reading “{name}” took longer than {s} seconds.",
                hint="Split it, or save it anew in a simpler form.",
                name=name,
                s=TIMEOUT_S,
            ) from error
        made = Path(folder) / f"source.{wanted}"
        # It returns 0 on failure too: only the file tells.
        yield made if made.exists() else None
