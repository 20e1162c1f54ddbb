"""Monitoring: liveness, readiness, and metrics for Prometheus, by a token or from this machine."""

from __future__ import annotations

import hmac
import ipaddress

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from rag.api.http.errors import map_status
from rag.services.operations import flush_metrics, metrics_page, readiness

_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


@csrf_exempt
@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200 while the process answers; nothing else is asked."""
    return JsonResponse({"status": "ok"})


@csrf_exempt
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 when database, migrations, queue worker and disk are there, 503 otherwise."""
    checks = readiness()
    is_ready = all(check["ok"] for check in checks.values())
    told = {"status": "ready" if is_ready else "not ready", "checks": checks}
    wait = {} if is_ready else map_status(request, 503).headers
    return JsonResponse(told, status=200 if is_ready else 503, headers=wait)


@csrf_exempt
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the sums of all processes; 404 for everybody who may not see them."""
    if not _may_see(request):
        return HttpResponse(status=404)
    # What this process has counted since it last sent on.
    flush_metrics()
    return HttpResponse(metrics_page(), content_type=CONTENT_TYPE_LATEST)


def _may_see(request: HttpRequest) -> bool:
    token = settings.METRICS_TOKEN
    if token:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), token.encode())
    # Behind a proxy on this machine everybody comes from here.
    if any(name in request.META for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
