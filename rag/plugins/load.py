"""Plugin loading from settings, installed apps and entry points; failures are recorded.

A module that fails is recorded and the site lives on without it.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import chain
from types import TracebackType

from django.apps import apps

from rag.conf import conf
from rag.core import plugins
from rag.core.errors import RAGError

GROUP = "citable.plugins"
MODULE = "rag_plugins"
_AFTER_MODULE = re.compile(r"[\s:\[]")
_OURS = ("rag.plugins.", "rag.services.", "rag.stages.")
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A module whose plugins are not there: its name, the door it came by, why and where.

    ``door`` is ``settings``, ``app`` or the name of a distribution. ``is_ours`` marks the
    product's own modules.
    """

    module: str
    door: str
    reason: str
    where: str
    is_ours: bool


_outcomes: dict[str, PluginFailure | None] = {}
_lock = threading.RLock()


def load_plugins() -> list[PluginFailure]:
    """Import every plugin module that was not tried before; return all that failed, in order.

    Ours come first, so that a foreign plugin cannot take the name of one of ours.
    """
    with _lock:
        doors: dict[str, str] = {}
        named = ((module, "settings") for module in conf().plugins)
        for module, door in chain(named, _from_apps(), _from_packages()):
            doors.setdefault(module, door)
        for module, door in doors.items():
            if module not in _outcomes:
                _outcomes[module] = _load(module, door)
        return [failure for module in doors if (failure := _outcomes[module])]


def _from_apps() -> Iterator[tuple[str, str]]:
    for app in apps.get_app_configs():
        # Looked for first, so that a failing import inside the module is not taken for absence.
        # An app that is a single file has no modules.
        if hasattr(app.module, "__path__") and find_spec(f"{app.name}.{MODULE}"):
            yield f"{app.name}.{MODULE}", "app"


def _from_packages() -> Iterator[tuple[str, str]]:
    for point in sorted(entry_points(group=GROUP), key=lambda point: (_owner(point), point.name)):
        yield _AFTER_MODULE.split(point.value, maxsplit=1)[0], _owner(point)


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.name


def _load(module: str, door: str) -> PluginFailure | None:
    attempt = _Attempt()
    with attempt:
        import_module(module)
    if attempt.error is None:
        return None
    reason, where = _reason(attempt.error), _where(attempt.error, module)
    return PluginFailure(module, door, reason, where, is_ours=module.startswith(_OURS))


class _Attempt:
    """Keeps what foreign code raised: anything at all, a call of ``sys.exit`` included."""

    error: BaseException | None = None

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        self.error = error
        return isinstance(error, Exception | SystemExit)


def _reason(error: BaseException) -> str:
    """Return the error in one line, without the secrets of this installation."""
    kind = "" if isinstance(error, RAGError) else f"{type(error).__name__}: "
    text = " ".join(f"{kind}{error}".split())
    settings = conf()
    secrets = [*settings.secret_values, settings.openai_api_key, settings.gemini_api_key]
    for secret in sorted(filter(None, map(str, secrets)), key=len, reverse=True):
        text = text.replace(secret, "…")
    return _URL_LOGIN.sub("…@", text)[:500]


def _where(error: BaseException, module: str) -> str:
    """Return file and line of the innermost frame that is the plugin's own."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    door = ("<frozen importlib", import_module.__code__.co_filename, __file__, plugins.__file__)
    own = [frame for frame in frames if not frame.filename.startswith(door)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else module
