"""Fake Gemini: grounded answers from stores and files.

Each answer is a lead, which nothing supports, and the sentence that fits best of each chunk used.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fakes.gemini_filter import FilterMistake, read_filter, values_of
from tests.fakes.gemini_state import Document, Store
from tests.fakes.gemini_texts import Piece, best_sentence, rank, read_pages
from tests.fakes.gemini_wire import error, parts_of
from tests.fakes.loopback import Reply

if TYPE_CHECKING:
    from tests.fakes.gemini_files import GeminiFiles

LEAD = "根據文件："
NOTHING = "The documents say nothing about it."
MAX_REQUEST = 20 * 1024 * 1024


@dataclass
class Grounded:
    """What an answer is made of: its pieces, the rest of the candidate, the counts."""

    pieces: tuple[str, ...]
    extra: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)


@dataclass
class _Found:
    store: Store
    document: Document
    piece: Piece


def grounded_pieces(
    files: GeminiFiles, asked: dict[str, Any], *, is_stream: bool
) -> Grounded | Reply | None:
    """Return the answer to a request in camelCase, or None when it names no store and no file."""
    tools = [tool["fileSearch"] for tool in asked.get("tools", []) if "fileSearch" in tool]
    parts = parts_of(asked)
    question = " ".join(part["text"] for part in parts if "text" in part)
    if tools:
        return _search(files, tools[0], question, is_stream=is_stream)
    sent = [part for part in parts if "inlineData" in part or "fileData" in part]
    if not sent:
        return None
    if len(json.dumps(asked)) > MAX_REQUEST:
        return error(
            400, "INVALID_ARGUMENT", f"Request payload size exceeds the limit: {MAX_REQUEST} bytes."
        )
    lines = []
    for part in sent:
        line = _line(files, part, question)
        if isinstance(line, Reply):
            return line
        lines.append(line)
    return Grounded(tuple(lines) if is_stream else ("".join(lines),))


def _line(files: GeminiFiles, part: dict[str, Any], question: str) -> str | Reply:
    if "inlineData" in part:
        mime_type = part["inlineData"]["mimeType"]
        try:
            # "-" and "_" of the URL's alphabet; anything else than base64 is refused.
            encoded = part["inlineData"]["data"].replace("-", "+").replace("_", "/")
            data = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            return error(400, "INVALID_ARGUMENT", "inline_data.data is no base64.")
    else:
        uri = part["fileData"]["fileUri"]
        name = "files/" + uri.rpartition("/")[2]
        file = files.files.get(name)
        if file is None:
            message = (
                f"You do not have permission to access the File {name[6:]} or it may not exist."
            )
            return error(403, "PERMISSION_DENIED", message)
        if file.state != "ACTIVE":
            message = f"The File {name[6:]} is not in an ACTIVE state and usage is not allowed."
            return error(400, "FAILED_PRECONDITION", message)
        mime_type, data = part["fileData"].get("mimeType", file.mime_type), file.data
    if mime_type in files.modes.unsupported:
        return error(400, "INVALID_ARGUMENT", f"Unsupported MIME type: {mime_type}")
    if mime_type.startswith("image/"):
        return f"{mime_type} of {len(data)} bytes. "
    pages = read_pages(data, mime_type)
    if pages is None:
        return f"{mime_type} that cannot be read. "
    return best_sentence(question, "\n".join(pages)) + " "


def _search(
    files: GeminiFiles, tool: dict[str, Any], question: str, *, is_stream: bool
) -> Grounded | Reply:
    names = tool.get("fileSearchStoreNames", [])
    for name in names:
        if name not in files.stores:
            return files.missing(name)
    try:
        is_wanted = read_filter(tool.get("metadataFilter", ""))
    except FilterMistake as mistake:
        return error(400, "INVALID_ARGUMENT", f"Invalid metadata filter: {mistake}.")
    held = [
        _Found(files.stores[name], document, piece)
        for name in names
        for document in files.stores[name].documents.values()
        if document.state == "STATE_ACTIVE" and is_wanted(values_of(document.metadata))
        for piece in document.pieces
    ]
    # A picture is found by what it is called.
    texts = [one.piece.text or one.document.display_name for one in held]
    ranked = rank(question, texts, tool.get("topK") or 5)
    if not ranked:
        return Grounded((NOTHING,))
    # Only what the model used comes back, without scores.
    used = [held[at] for at, score in ranked if score >= ranked[0][1] / 2]
    return _answer(files, used, question, is_stream=is_stream)


def _answer(files: GeminiFiles, used: list[_Found], question: str, *, is_stream: bool) -> Grounded:
    said: dict[str, list[int]] = {}
    for at, found in enumerate(used):
        text = found.piece.text
        sentence = best_sentence(question, text) if text else found.document.display_name
        said.setdefault(sentence, []).append(at)
    sentences = [f"{sentence}\n" for sentence in said]
    if is_stream:
        # The chunks are pieces of one part.
        parts, pieces = [[LEAD, *sentences]], (LEAD, *sentences)
    else:
        n_parts = min(files.modes.n_parts, len(sentences))
        parts = [
            [LEAD, *sentences[0::n_parts]],
            *(sentences[at::n_parts] for at in range(1, n_parts)),
        ]
        pieces = tuple("".join(part) for part in parts)
    supports = _supports(parts, said)
    n_tokens = sum(len(found.piece.text) // 4 for found in used)
    extra = _metadata(files.modes.grounding, used, supports)
    return Grounded(pieces, extra, {"toolUsePromptTokenCount": n_tokens})


def _supports(parts: list[list[str]], said: dict[str, list[int]]) -> list[dict[str, Any]]:
    supports = []
    for part_index, part in enumerate(parts):
        at = 0
        for sentence in part:
            end = at + len(sentence.encode())
            if (sources := said.get(sentence.removesuffix("\n"))) is not None:
                segment: dict[str, Any] = {"endIndex": end - 1, "text": sentence[:-1]}
                segment |= {"startIndex": at} if at else {}
                segment |= {"partIndex": part_index} if part_index else {}
                supports.append({"segment": segment, "groundingChunkIndices": sources})
            at = end
    return supports


def _metadata(mode: str, used: list[_Found], supports: list[dict[str, Any]]) -> dict[str, Any]:
    if mode == "none":
        return {}
    if mode == "empty":
        return {"groundingMetadata": {}}
    chunks = [_chunk(found, mode) for found in used]
    if mode == "no_supports":
        return {"groundingMetadata": {"groundingChunks": chunks}}
    for support in supports:
        segment = support["segment"]
        if mode == "broken":
            segment["startIndex"] = segment.get("startIndex", 0) + 1
        if mode == "far":
            segment["endIndex"] += 1_000_000
            del segment["text"]
    return {"groundingMetadata": {"groundingChunks": chunks, "groundingSupports": supports}}


def _chunk(found: _Found, mode: str) -> dict[str, Any]:
    context: dict[str, Any] = {"fileSearchStore": found.store.name}
    context |= {} if mode == "no_titles" else {"title": found.document.display_name}
    if found.piece.media:
        context["mediaId"] = found.piece.media
    elif mode != "no_texts":
        context["text"] = found.piece.text
    context |= {"pageNumber": found.piece.page} if found.piece.page else {}
    context |= {"customMetadata": found.document.metadata} if found.document.metadata else {}
    return {"retrievedContext": context}
