"""A canonical text survives its way in pieces, whatever it holds."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag import models
from rag.providers.postgres.write import staging as canonical
from tests.integration.index_world import make_file, make_space, make_store

pytestmark = pytest.mark.django_db
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@pytest.fixture
def file() -> models.File:
    return make_file(make_store(make_space()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(TEXTS)
def test_any_text_comes_back_as_it_went(file: models.File, text: str) -> None:
    canonical.write_canonical(file.pk, text)
    assert models.File.objects.get(pk=file.pk).canonical_text == text


@pytest.mark.parametrize("text", ["", "\\.", "a\\N", "\\", "tab\tline\nreturn\r\f", "𠀀水"])
def test_signs_that_copy_treats_specially_are_text(file: models.File, text: str) -> None:
    canonical.write_canonical(file.pk, text)
    assert models.File.objects.get(pk=file.pk).canonical_text == text


def test_pieces_join_without_a_seam(file: models.File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "PIECE", 3)
    text = "水泵\\压力\n四十巴" * 40
    canonical.write_canonical(file.pk, text)
    assert models.File.objects.get(pk=file.pk).canonical_text == text
