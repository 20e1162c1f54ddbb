"""The access rule of a Scope that is limited to some stores: less than without, never more."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rag.core.access import Scope, StoreFacts, may_edit, may_read

IDS = st.frozensets(st.integers(1, 4))
SCOPES = st.builds(Scope, st.none() | st.integers(1, 3), IDS, st.booleans(), st.none() | IDS)
STORES = st.builds(
    StoreFacts,
    st.none() | st.integers(1, 3),
    IDS,
    IDS,
    st.booleans(),
    st.none() | st.integers(1, 4),
)


@given(SCOPES, STORES, IDS)
def test_a_limit_to_stores_takes_away_all_others_and_nothing_else(
    scope: Scope, store: StoreFacts, restricted: frozenset[int]
) -> None:
    free = replace(scope, only_store_ids=None)
    inside = scope.only_store_ids is None or store.store_id in scope.only_store_ids
    assert may_edit(scope, store) == (inside and may_edit(free, store))
    assert may_read(scope, store, restricted) == (inside and may_read(free, store, restricted))


@given(SCOPES, SCOPES)
def test_fingerprints_differ_exactly_when_rights_differ(one: Scope, other: Scope) -> None:
    assert (one.fingerprint == other.fingerprint) == (one == other)


def test_no_stores_is_not_the_same_as_all_stores() -> None:
    none, everything = Scope(1, only_store_ids=frozenset()), Scope(1)
    assert none.fingerprint != everything.fingerprint
    store = StoreFacts(1, frozenset(), frozenset(), True, store_id=7)
    assert may_read(everything, store)
    assert not may_read(none, store)


def test_an_operator_s_limit_holds() -> None:
    scope = replace(Scope.operator(), only_store_ids=frozenset({7}))
    facts = StoreFacts(None, frozenset(), frozenset(), True, store_id=8)
    assert not may_read(scope, facts)
    assert not may_edit(scope, facts)
    assert may_edit(scope, replace(facts, store_id=7))
    assert not may_edit(scope, replace(facts, store_id=None))
