"""Access control: who may read which store and file; no read path goes without a ``Scope``.

The querysets of ``rag.models`` and the search statements apply the same rule in SQL; tests
hold them against ``may_read``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody without an account, known by the digest of a browser's secret, at one widget."""

    widget_id: int
    digest: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller is: the argument of every read path. There is no default that sees all.

    ``only_store_ids`` narrows all other rights to these stores, an operator's too; None does not.
    ``key_id`` says on which key's account models are called, ``visitor`` whose conversations are
    one's own without an account; neither is a right.
    """

    user_id: int | None
    group_ids: frozenset[int] = frozenset()
    is_operator: bool = False
    only_store_ids: frozenset[int] | None = None
    key_id: int | None = field(default=None, compare=False)
    visitor: Visitor | None = None

    @classmethod
    def anonymous(cls) -> Scope:
        """Return the scope of somebody unknown: public stores only."""
        return cls(user_id=None)

    @classmethod
    def operator(cls) -> Scope:
        """Return the scope of superusers, jobs and management commands: everything."""
        return cls(user_id=None, is_operator=True)

    @property
    def fingerprint(self) -> str:
        """Return a digest that differs whenever the rights differ; part of every cache key."""
        groups = ",".join(str(group) for group in sorted(self.group_ids))
        only = self.only_store_ids
        stores = "all" if only is None else ",".join(str(store) for store in sorted(only))
        raw = f"{self.user_id}|{groups}|{self.is_operator}|{stores}"
        return hashlib.sha256(raw.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """The facts about a store that decide on access.

    Without a ``store_id`` it is outside of every limit to some stores.
    """

    owner_id: int | None
    reader_group_ids: frozenset[int]
    editor_group_ids: frozenset[int]
    is_public: bool
    store_id: int | None = None


def may_edit(scope: Scope, store: StoreFacts) -> bool:
    """Return whether ``scope`` may change the store: its owner, its editors, operators."""
    if _is_outside(scope, store):
        return False
    if scope.is_operator:
        return True
    is_owner = scope.user_id is not None and scope.user_id == store.owner_id
    return is_owner or bool(scope.group_ids & store.editor_group_ids)


def may_read(scope: Scope, store: StoreFacts, restricted_to: frozenset[int] = frozenset()) -> bool:
    """Return whether ``scope`` may read a file of the store.

    ``restricted_to`` holds the groups that a file is restricted to; empty means every reader of
    the store. Editors see restricted files too, since they manage them.
    """
    if _is_outside(scope, store):
        return False
    if may_edit(scope, store):
        return True
    if not (store.is_public or scope.group_ids & store.reader_group_ids):
        return False
    return not restricted_to or bool(scope.group_ids & restricted_to)


def _is_outside(scope: Scope, store: StoreFacts) -> bool:
    return scope.only_store_ids is not None and store.store_id not in scope.only_store_ids
