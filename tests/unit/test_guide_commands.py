"""Each command that the guides show is one that the site has, with arguments that it takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.M | re.S)
CALL = re.compile(r"manage\.py ((?:rag|flow)_\w+[^|\n]*)")


def calls() -> list[str]:
    found = []
    for guide in sorted(GUIDES.glob("*.md")):
        for block in BLOCK.findall(guide.read_text(encoding="utf-8")):
            found += CALL.findall(block.replace("\\\n", " "))
    return found


def test_the_operators_guide_shows_what_it_is_about() -> None:
    shown = {call.split()[0] for call in calls()}
    assert shown >= {"rag_reindex", "rag_move", "rag_dump", "rag_load", "rag_sync"}


def test_the_readme_lists_every_command_and_no_other() -> None:
    readme = (GUIDES.parents[1] / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## Commands")[2].partition("## Configuration")[0]
    shown = set(re.findall(r"`((?:rag|flow)_\w+)", table))
    ours = {name for name in get_commands() if name.startswith(("rag_", "flow_"))}
    assert shown == ours


@pytest.mark.parametrize("call", calls())
def test_a_command_of_the_guides_takes_its_arguments(call: str) -> None:
    name, *arguments = shlex.split(call, comments=True)
    command = load_command_class(get_commands()[name], name)
    command.create_parser("manage.py", name).parse_args(arguments)
