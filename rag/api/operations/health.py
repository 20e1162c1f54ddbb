"""Health checks: liveness and readiness."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from rag.services.operations import readiness


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200 while the process answers; nothing else is asked."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 when database, migrations, queue worker and disk are there, 503 otherwise."""
    checks = readiness()
    is_ready = all(check["ok"] for check in checks.values())
    told = {"status": "ready" if is_ready else "not ready", "checks": checks}
    return JsonResponse(told, status=200 if is_ready else 503)
