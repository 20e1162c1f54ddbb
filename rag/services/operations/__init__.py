"""Operations: health, consistency checks, recovery and retention, metrics, dashboard, jobs."""

from __future__ import annotations

from rag.providers.procrastinate_queue import Job, JobEvent, stalled_jobs
from rag.services.operations.check_result import CheckResult
from rag.services.operations.dashboard_figures import (
    DAYS,
    GOOD,
    DashboardFigures,
    dashboard,
    visible_queries,
)
from rag.services.operations.doctor import CHECKS, repair, run_checks
from rag.services.operations.health import readiness
from rag.services.operations.jobs import cancel_jobs, retry_jobs, visible_jobs
from rag.services.operations.metrics import flush_metrics, metrics_page, start_metrics
from rag.services.operations.recovery import (
    purge_finished_jobs,
    purge_old_queries,
    purge_old_usage,
    recover_jobs,
    remove_orphans,
)
