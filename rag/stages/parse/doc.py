"""Word 97 and older. In: a file. Out: its text, by xberg or, where that fails, by LibreOffice."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.parse.office import parse_office

TIMEOUT_S = 60


def parse_doc(path: Path, name: str) -> ParsedDocument:
    """Return the document; raise DocumentError when neither way reads it."""
    try:
        return parse_office(path, name, "doc")
    except DocumentError as error:
        office = shutil.which("soffice") or shutil.which("libreoffice")
        if office is None:
            raise DocumentError(
                "“{name}” is a .doc file that cannot be read here.",
                hint="Save it as .docx, or install LibreOffice on the server.", name=name,
            ) from error  # fmt: skip
        return _by_libreoffice(office, path, name)


def _by_libreoffice(office: str, path: Path, name: str) -> ParsedDocument:
    # What outlives the time limit belongs to this process's group and is ended with it.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source = Path(folder) / "source.doc"
        shutil.copyfile(path, source)
        command = [
            office, f"-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore",
            "--convert-to", "docx", "--outdir", folder, str(source),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        converted = Path(folder) / "source.docx"
        # It returns 0 on failure too: only the file tells.
        if not converted.exists():
            raise DocumentError(
                "“{name}” is damaged.", hint="Open it, save it as .docx and upload that.", name=name
            )
        return replace(parse_office(converted, name, "docx"), kind="doc", parser="libreoffice/1")
