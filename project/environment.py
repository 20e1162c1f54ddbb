"""Environment variables: typed reading with defaults and bounds.

A value that cannot be read is one error that names the variable, in place of a traceback.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import environ
from django.core.exceptions import ImproperlyConfigured

from rag.core.errors import ConfigurationError

_NO = ("", "0", "f", "false", "n", "no", "off")
_YES = tuple(environ.Env.BOOLEAN_TRUE_STRINGS)


class Environment(environ.Env):  # type: ignore[misc]
    """The process's environment; each reader raises ConfigurationError with the name."""

    def get_value(self, var: str, *args: Any, **kwargs: Any) -> Any:
        """Return a value as the cast of the caller makes it."""
        try:
            return super().get_value(var, *args, **kwargs)
        except ValueError as error:
            _refuse(var, str(error))

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a yes or no; a misspelt word is neither."""
        text = self.str(name, default=str(default)).strip().lower()
        if text not in (*_YES, *_NO):
            _refuse(name, f"“{text}” is neither true nor false")
        return text in _YES

    def whole(self, name: str, *, default: int, least: int = 0) -> int:
        """Return a whole number from ``least`` on."""
        value: int = self.int(name, default=default)
        if value < least:
            _refuse(name, f"{value} is less than {least}")
        return value

    def number(self, name: str, *, default: float, least: float = 0.0) -> float:
        """Return a finite number from ``least`` on."""
        value: float = self.float(name, default=default)
        if not least <= value < float("inf"):
            _refuse(name, f"{value:g} is not a number from {least:g} on")
        return value

    def choice(self, name: str, *, default: str, allowed: Sequence[str]) -> str:
        """Return one of ``allowed``."""
        value: str = self.str(name, default=default)
        if value not in allowed:
            _refuse(name, f"“{value}” is none of {', '.join(allowed)}")
        return value

    def time_zone(self, name: str, *, default: str) -> str:
        """Return the name of a time zone, such as ``Asia/Shanghai``."""
        value: str = self.str(name, default=default)
        try:
            return ZoneInfo(value).key
        except (KeyError, ValueError, OSError):
            _refuse(name, f"“{value}” is no time zone, such as Asia/Shanghai")

    def table(self, name: str) -> dict[str, Any]:
        """Return a JSON object; an empty one where nothing is set, or nothing but blanks."""
        value = self.json(name, default={}) if self.str(name, default="").strip() else {}
        if not isinstance(value, dict):
            _refuse(name, "it is not a JSON object")
        return value

    def pairs(self, name: str) -> dict[str, str]:
        """Return ``a=1,b=2`` as a dictionary, by default an empty one."""
        value: dict[str, str] = self.dict(name, default={})
        return value

    def database(self, name: str, url: object) -> dict[str, Any]:
        """Return Django's options of the PostgreSQL at ``url``, given in variable ``name``."""
        options = self.source_database(name, url)
        if options["ENGINE"] != self.DB_SCHEMES["postgres"]:
            _refuse(name, "it is not like postgres://user:password@host:5432/name")
        return options

    def source_database(self, name: str, url: object) -> dict[str, Any]:
        """Return Django's options of a database of any kind that Django knows."""
        # Reasons and warnings quote the URL, which holds a password.
        with warnings.catch_warnings(action="ignore"):
            try:
                options: dict[str, Any] = self.db_url_config(str(url))
            except (ValueError, ImproperlyConfigured):
                options = {}
        known = options.get("ENGINE") in self.DB_SCHEMES.values()
        if not known or not (options.get("NAME") or "service" in options.get("OPTIONS", {})):
            _refuse(name, "no such address of a database: scheme://user:password@host:port/name")
        return options


def _refuse(name: str, reason: str) -> NoReturn:
    raise ConfigurationError(
        "The setting {name} cannot be read: {reason}.",
        hint="Correct it in the environment or in .env; README has the table of all settings.",
        name=name,
        reason=reason,
    )
