"""What must be translated, read off our code, our templates and Unfold; and what is.

``python -m tests.edges.catalogue`` compiles the .po files and prints what is missing or forgotten.
"""

from __future__ import annotations

import ast
import gettext
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import unfold
from django.forms.utils import pretty_name
from django.utils import translation
from django.utils.translation.template import templatize

from rag.core import errors

BASE_DIR = Path(__file__).resolve().parents[2]
LOCALE = BASE_DIR / "locale" / "zh_Hans" / "LC_MESSAGES"
CONTEXT = "\x04"
MARKERS = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
IN_CONTEXT = {"pgettext", "pgettext_lazy"}
ERRORS = {*(name for name in vars(errors) if name.endswith("Error")), "Notice"}
_CALL = re.compile(
    r"\b(?:gettext|_|ngettext|pgettext)\(\s*(?:u?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")[,\s]*)+"
)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def messages_of_ours() -> set[str]:
    """Return every text that this product shows to people."""
    code = messages_of_code("rag", "agents", "project")
    return {*code, *messages_of_templates(BASE_DIR / "templates")}


def messages_of_code(*folders: str) -> Iterator[str]:
    """Yield every text that our Python marks for translation, and every error's and notice's template."""
    for folder in folders:
        for path in sorted((BASE_DIR / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield from _messages_of_python(path)
            if path.parent.name == "connectors" and "plugins" in path.parts:
                yield from _messages_of_connector(path)


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


def is_translated(message: str) -> bool:
    """Return whether a Chinese reader gets ``message`` in Chinese, from us or from Django."""
    context, _, text = message.rpartition(CONTEXT)
    with translation.override("zh-hans"):
        if context:
            return translation.pgettext(context, text) != text
        texts = {translation.gettext(message), translation.ngettext(message, message, 2)}
    return texts != {message} or message in read_po(LOCALE / "django.po")


def read_po(path: Path) -> dict[str, list[str]]:
    """Return each message of a .po file with its translations, plural forms in order."""
    found: dict[str, list[str]] = {}
    for key, _, texts in _entries(path):
        assert key not in found, f"twice: {key}"
        found[key] = texts
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


def write_mo(source: Path) -> None:
    """Compile a .po file beside it, as msgfmt would."""
    rows = sorted(
        (f"{key}\0{plural}".encode() if plural else key.encode(), "\0".join(texts).encode())
        for key, plural, texts in _entries(source)
    )
    texts = [row[0] for row in rows] + [row[1] for row in rows]
    offset = 28 + 8 * len(texts)
    table = b""
    for text in texts:
        table += struct.pack("<II", len(text), offset)
        offset += len(text) + 1
    n = len(rows)
    head = struct.pack("<7I", 0x950412DE, 0, n, 28, 28 + 8 * n, 0, offset)
    body = b"".join(text + b"\0" for text in texts)
    source.with_suffix(".mo").write_bytes(head + table + body)


def _entries(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield message, plural or nothing, and translations of each entry of a .po file."""
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            value = line
            if not line.startswith('"'):
                name, _, value = line.partition(" ")
            fields[name] = fields.get(name, "") + ast.literal_eval(value)
        if "msgid" in fields:
            context = f"{fields['msgctxt']}{CONTEXT}" if "msgctxt" in fields else ""
            texts = [fields[name] for name in sorted(fields) if name.startswith("msgstr")]
            yield context + fields["msgid"], fields.get("msgid_plural", ""), texts


def _messages_of_connector(path: Path) -> Iterator[str]:
    """Yield what the admin makes of a connector: its first line, its options' names and helps."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Connector"):
            yield (ast.get_docstring(node) or "").partition("\n")[0]
        elif isinstance(node, ast.ClassDef) and node.name == "Options":
            fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            yield from (pretty_name(one.id) for one in fields if isinstance(one, ast.Name))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "option":
            helps = (_constant(key.value) for key in node.keywords if key.arg == "help")
            yield from (text for text in helps if text)


def _messages_of_python(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {
        target.id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    if "chunking" in path.parts:
        yield from _shown_by_classes(tree)
    for node in ast.walk(tree):
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
        elif name == "option" and (path.name == "agent_config.py" or "chunking" in path.parts):
            # Shown in forms; neither the core nor stages know Django to mark them with.
            helps = (_constant(key.value) for key in node.keywords if key.arg == "help")
            yield from filter(None, helps)
        elif name in ERRORS or (name in ("__init__", "cls") and path.name == "errors.py"):
            said = [*node.args[:1], *(key.value for key in node.keywords if key.arg == "hint")]
            yield from (text for one in said for text in _choices(one, named) if text)


def _shown_by_classes(tree: ast.Module) -> Iterator[str]:
    """Yield the label and the description of each plugin."""
    for plugin in (one for one in tree.body if isinstance(one, ast.ClassDef)):
        for one in (one for one in plugin.body if isinstance(one, ast.Assign)):
            (target,) = one.targets
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = one.value.elts if isinstance(one.value, ast.Tuple) else [one.value]
            for name, value in zip(names, values, strict=False):
                if getattr(name, "id", "") in ("label", "description"):
                    yield from filter(None, [_constant(value)])


def _choices(node: ast.expr, named: dict[str, ast.expr]) -> Iterator[str | None]:
    """Yield the texts that an expression may be; ``named`` are the module's constants."""
    if isinstance(node, ast.BoolOp):
        for one in node.values:
            yield from _choices(one, named)
    elif isinstance(node, ast.IfExp):
        yield from _choices(node.body, named)
        yield from _choices(node.orelse, named)
    elif isinstance(node, ast.Name) and node.id in named:
        yield from _choices(named.pop(node.id), named)
    else:
        yield _constant(node)


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    for po in sorted(LOCALE.glob("*.po")):
        write_mo(po)
    needed = {*messages_of_ours(), *messages_of_unfold()}
    for text in sorted(needed):
        if not is_translated(text):
            print("missing", repr(text))
    for text in read_po(LOCALE / "django.po"):
        if text and text not in needed:
            print("forgotten", repr(text))
