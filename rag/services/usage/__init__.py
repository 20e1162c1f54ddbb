"""Usage: budgets of keys, metered model calls, the ledger, reports."""

from __future__ import annotations

from rag.services.usage.budgets import check_budget, period_start, price_of, read_price, save_budget
from rag.services.usage.ledger import (
    DeferredUsage,
    ModelCall,
    charged_to,
    current_payer,
    defer_to,
    flush_usage,
    record_answer,
    record_call,
)
from rag.services.usage.metering import (
    MeteredChat,
    MeteredEmbedder,
    MeteredReranker,
    metered_stream,
    reserved_answer,
)
from rag.services.usage.report import UsageQuery, run_calls, usage_report
