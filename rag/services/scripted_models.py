"""Chat models that answer from a script. In: a path, or the script itself. Out: the port."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag.core.ports import ChatModel
from rag.providers.scripted import Script, ScriptedChatModel


def scripted(model: str) -> ChatModel:
    """Return the model whose name is the path of a YAML file."""
    return ScriptedChatModel(Script.read(Path(model)), model)


def model_of_script(*, script: Mapping[str, Any], name: str) -> ChatModel:
    """Return the model of a script at hand; raise InvalidInputError for a wrong one."""
    return ScriptedChatModel(Script.from_dict(script, name=name), name)
