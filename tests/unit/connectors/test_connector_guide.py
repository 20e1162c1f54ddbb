"""The guide “Write a connector”: its files are loaded, and its contract holds."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rag.core import plugins
from rag.core.plugins import PluginRegistry

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/write-a-connector.md"
FILES = {
    block.split("\n")[0].removeprefix("# ").removesuffix(".py"): block
    for block in re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
}


@pytest.fixture(scope="module")
def contract() -> Iterator[type[Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "PLUGINS", PluginRegistry())
        for name, text in FILES.items():
            module = ModuleType(name)
            patch.setitem(sys.modules, name, module)
            exec(compile(text, name, "exec"), module.__dict__)
        yield module.TestShopNotes


def test_the_contract_of_the_guide_holds(contract: type[Any]) -> None:
    ran = [name for name in dir(contract) if name.startswith("test_")]
    assert len(ran) >= 9
    for name in ran:
        getattr(contract(), name)()
