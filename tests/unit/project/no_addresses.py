"""URL configuration of a project that has not included ours."""

from __future__ import annotations

urlpatterns: list[object] = []
