"""JSON Lines file with random access by key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError

_LINES_PER_CHECK = 4096


class JsonLines:
    """Finds an object by its line, from 0, or by a whole number in a field of its own.

    Holds 8 bytes a line in memory, and with ``key_field`` 16; the texts stay on disk.
    """

    def __init__(self, path: Path, deadline: Deadline, *, key_field: str = "") -> None:
        self._path = path
        starts, keys, position = [], [], 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines):
                if not number % _LINES_PER_CHECK:
                    deadline.check()
                if key_field:
                    keys.append(self._key(line, number, key_field))
                starts.append(position)
                position += len(line)
        self._starts: NDArray[np.int64] = np.array(starts, dtype=np.int64)
        self._keys: NDArray[np.int64] | None = None
        if key_field:
            found = np.array(keys, dtype=np.int64)
            order = np.argsort(found, kind="stable")
            self._keys, self._starts = found[order], self._starts[order]

    def __len__(self) -> int:
        return len(self._starts)

    def rows(self, keys: list[int]) -> dict[int, Mapping[str, Any]]:
        """Return the objects of those ``keys`` that are there."""
        found = {}
        with self._path.open("rb") as lines:
            for key in keys:
                place = self._place(key)
                if place is not None:
                    lines.seek(int(self._starts[place]))
                    found[key] = self._object(lines.readline(), key)
        return found

    def _place(self, key: int) -> int | None:
        if self._keys is None:
            return key if 0 <= key < len(self._starts) else None
        place = int(np.searchsorted(self._keys, key))
        return place if place < len(self._keys) and self._keys[place] == key else None

    def _key(self, line: bytes, number: int, field: str) -> int:
        key = self._object(line, number).get(field)
        if not isinstance(key, int) or isinstance(key, bool) or not -(2**63) <= key < 2**63:
            raise ConfigurationError(
                "Line {line} of {file} has no whole number under “{field}”.",
                hint="Choose another id_field.",
                line=number + 1,
                file=self._path.name,
                field=field,
            )
        return key

    def _object(self, line: bytes, number: int) -> Mapping[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ConfigurationError(
                "{file} holds something else than a JSON object at {place}.",
                hint="Write one object a line, and no empty lines.",
                file=self._path.name,
                place=number,
            )
        return found
