"""Which way vectors are searched, decided by size and share."""

from __future__ import annotations

from rag.core.ports import FileFilter, StoreTarget
from rag.providers.postgres.search.index import MAX_EXACT, VectorScan, plan_vector_scans


def store(pk: int, n_chunks: int, **values: object) -> StoreTarget:
    facts = {"share": 0.5, "has_hnsw": True, "has_partial": False} | values
    return StoreTarget(pk, 1, 8, n_chunks, False, **facts)  # type: ignore[arg-type]


def ways(
    targets: list[StoreTarget], files: FileFilter | None = None
) -> set[tuple[str, tuple[int, ...]]]:
    return {(branch.way, branch.store_ids) for branch in plan_vector_scans(targets, files, 10_000)}


def test_small_stores_are_scanned_exactly_together() -> None:
    assert ways([store(1, 5_000), store(2, 10_000)]) == {("exact", (1, 2))}


def test_many_small_stores_together_take_the_shared_index() -> None:
    assert ways([store(i, 9_000) for i in range(1, 4)]) == {("hnsw", (1, 2, 3))}


def test_a_large_store_takes_the_shared_index() -> None:
    assert ways([store(1, 50_000), store(2, 100)]) == {("hnsw", (1,)), ("exact", (2,))}


def test_a_large_store_with_a_small_share_takes_its_own_index() -> None:
    tiny = {"share": 0.005, "has_partial": True}
    assert ways([store(1, 20_000, **tiny), store(2, 20_000, **tiny)]) == {
        ("partial", (1,)),
        ("partial", (2,)),
    }


def test_its_own_index_is_awaited_on_the_shared_one() -> None:
    assert ways([store(1, 20_000, share=0.005)]) == {("hnsw", (1,))}


def test_without_any_index_the_scan_is_exact() -> None:
    assert ways([store(1, 50_000, has_hnsw=False)]) == {("exact", (1,))}


def test_few_chunks_behind_a_file_filter_are_scanned_exactly() -> None:
    targets = [store(1, 1_000_000)]
    assert ways(targets, FileFilter([5], MAX_EXACT)) == {("exact", (1,))}
    assert ways(targets, FileFilter([5], MAX_EXACT + 1)) == {("hnsw", (1,))}


def test_each_space_has_its_own_branch() -> None:
    other = StoreTarget(2, 9, 4, 10, False)
    assert plan_vector_scans([store(1, 10), other], None, 10_000) == [
        VectorScan(1, 8, "exact", (1,)),
        VectorScan(9, 4, "exact", (2,)),
    ]
