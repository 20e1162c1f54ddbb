"""What must be translated, read off our code, our templates and Unfold; and what is."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import unfold
from django.utils.translation.template import templatize

from rag.core import errors

BASE_DIR = Path(__file__).resolve().parents[2]
LOCALE = BASE_DIR / "locale" / "zh_Hans" / "LC_MESSAGES"
CONTEXT = "\x04"
MARKERS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
IN_CONTEXT = {"pgettext", "pgettext_lazy"}
ERRORS = {name for name in vars(errors) if name.endswith("Error")}
_CALL = re.compile(
    r"\b(?:gettext|_|ngettext|pgettext)\(\s*(?:u?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")[,\s]*)+"
)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def messages_of_code(*folders: str) -> Iterator[str]:
    """Yield every text that our Python marks for translation, and every error's template."""
    for folder in folders:
        for path in sorted((BASE_DIR / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield from _messages_of_python(path)


def messages_of_templates(folder: Path) -> Iterator[str]:
    """Yield every text that the templates below ``folder`` mark for translation."""
    for path in sorted(folder.rglob("*.html")):
        for call in _CALL.finditer(templatize(path.read_text(encoding="utf-8"))):
            texts = [ast.literal_eval(text) for text in _STRING.findall(call.group())]
            if call.group().startswith("pgettext"):
                texts = [CONTEXT.join(texts[:2])]
            yield from texts[:1]


def messages_of_unfold() -> Iterator[str]:
    """Yield every text that Unfold itself shows; its extras for other packages are left out."""
    home = Path(str(unfold.__file__)).parent
    for path in sorted(
        [*home.glob("*.py"), *home.glob("mixins/*.py"), *home.glob("templatetags/*.py")]
    ):
        yield from _messages_of_python(path)
    yield from messages_of_templates(home / "templates")


def read_po(path: Path) -> dict[str, list[str]]:
    """Return each message of a .po file with its translations, plural forms in order."""
    found: dict[str, list[str]] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if not line.startswith('"'):
                name, _, line = line.partition(" ")
            fields[name] = fields.get(name, "") + ast.literal_eval(line)
        if "msgid" in fields:
            context = fields.get("msgctxt")
            key = fields["msgid"] if context is None else context + CONTEXT + fields["msgid"]
            assert key not in found, f"twice: {key}"
            found[key] = [fields[name] for name in sorted(fields) if name.startswith("msgstr")]
    return found


def read_mo(path: Path) -> dict[str, list[str]]:
    """Return each message of a .mo file with its translations, plural forms in order."""
    with path.open("rb") as stream:
        catalog = vars(gettext.GNUTranslations(stream))["_catalog"]
    found: dict[str, list[str]] = {}
    for key in catalog:
        message = key[0] if isinstance(key, tuple) else key
        found.setdefault(message, []).append(catalog[key])
    return found


def _messages_of_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        texts = [_constant(argument) for argument in node.args[:2]]
        if name in MARKERS and texts and texts[0]:
            yield texts[0]
        elif name in IN_CONTEXT and all(texts):
            yield CONTEXT.join(text for text in texts if text)
        elif name == "Registry":
            yield from (text for text in texts[:1] if text)
        elif name in ERRORS or (name == "__init__" and path.name == "errors.py"):
            hints = [_constant(key.value) for key in node.keywords if key.arg == "hint"]
            yield from (text for text in [*texts[:1], *hints] if text)


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
