"""Flow files: YAML and prompts from a form, an upload or a stored version."""

from __future__ import annotations

from django.http import HttpRequest

from agents import models
from agents.flows.definition.archive import (
    FLOW_FILE,
    MAX_ARCHIVE,
    FlowFiles,
    files_from_texts,
    read_flow_zip,
)
from agents.flows.versions.versions import find_version
from rag.core.errors import InvalidInputError, LimitError


def submitted_files(request: HttpRequest) -> FlowFiles:
    """Return what a form holds: uploaded files before typed ones."""
    return uploaded_files(request) if request.FILES else _typed(request)


def uploaded_files(request: HttpRequest) -> FlowFiles:
    """Return the flow of what was uploaded: a zip, or flow.yaml with its prompts.

    Raises InvalidInputError, LimitError or NotFoundError for what is no flow.
    """
    given = request.FILES.getlist("files")
    if sum(one.size or 0 for one in given) > MAX_ARCHIVE:
        raise LimitError("The archive has more than {limit} bytes.", limit=MAX_ARCHIVE)
    names = [str(one.name) for one in given]
    if len(given) == 1 and names[0].endswith(".zip"):
        return read_flow_zip(given[0].read())
    texts = {}
    for name, one in zip(names, given, strict=True):
        try:
            text = one.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInputError("“{path}” is not UTF-8.", path=name) from error
        texts[FLOW_FILE if name.endswith((".yaml", ".yml")) else name] = text
    return files_from_texts(texts)


def version_files(flow: models.Flow, number: int) -> FlowFiles:
    """Return the texts of a version; raise NotFoundError."""
    version = find_version(flow=flow, number=number or None)
    return FlowFiles(version.yaml, version.prompts)


def _typed(request: HttpRequest) -> FlowFiles:
    """Return the texts of a form; a prompt without a path is none."""
    paths, texts = request.POST.getlist("path"), request.POST.getlist("text")
    prompts = {
        path.strip(): text.replace("\r\n", "\n")
        for path, text in zip(paths, texts, strict=False)
        if path.strip()
    }
    return FlowFiles(request.POST.get("yaml", "").replace("\r\n", "\n"), prompts)
