"""Parser for Outlook messages ([MS-OXMSG]) through xberg: headers, text, names of attachments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.mail.mail import UNREAD_ATTACHMENTS, attachment_list
from rag.stages.parse.office.office import PARSER, XbergNode, add_nodes, read_office

_ATTACHED = re.compile(r"\s*(.+) \(\d+B\)\s*")


def parse_msg(path: Path, name: str) -> ParsedDocument:
    """Return the message; attachments are named, not read. Raises DocumentError when damaged."""
    # What xberg remarks of attachments is left out as they are.
    content = read_office(path.read_bytes(), "msg", name)
    canonical = CanonicalText()
    shown, attached = _without_attachments(content.nodes)
    add_nodes(canonical, shown, number_lists=True)
    if attached:
        canonical.add("list", attachment_list(attached))
        canonical.warnings.append(UNREAD_ATTACHMENTS)
    return canonical.finish("msg", PARSER, title=content.title)


def _without_attachments(nodes: Sequence[XbergNode]) -> tuple[Sequence[XbergNode], list[str]]:
    """Return what stands before the list of attachments, and their names."""
    for at, node in enumerate(nodes):
        if node.text.strip() == "Attachments:":
            named = (_ATTACHED.fullmatch(one.text) for one in nodes[at + 1 :])
            if names := [match[1] for match in takewhile(bool, named) if match]:
                return nodes[:at], names
    return nodes, []
