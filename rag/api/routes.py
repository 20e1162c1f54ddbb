"""URL routes of the resources and file-search views, below ``/api/``."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, re_path
from django.views.decorators.csrf import csrf_exempt
from rest_framework.routers import SimpleRouter

from rag.api.docs import docs
from rag.api.http.errors import map_status, render_json
from rag.api.resources.evaluation import EvaluationRunViews
from rag.api.resources.files import FileViews
from rag.api.resources.golden import GoldenQuestionViews
from rag.api.resources.stores import ChunkViews, StoreViews

_router = SimpleRouter(trailing_slash=False)
_router.register("stores", StoreViews, "api-stores")
_router.register("files", FileViews, "api-files")
_router.register("chunks", ChunkViews, "api-chunks")
_router.register("golden-questions", GoldenQuestionViews, "api-golden-questions")
_router.register("evaluation-runs", EvaluationRunViews, "api-evaluation-runs")


@csrf_exempt
def unknown_address(request: HttpRequest) -> HttpResponse:
    """Return 404 in JSON: nothing else shall complete or redirect an address of the API."""
    return render_json(map_status(request, 404))


urlpatterns: list[URLPattern | URLResolver] = [
    *_router.urls,
    path("docs", docs, name="api-docs"),
]
# After all other addresses below /api/.
catch_all = re_path("", unknown_address)
