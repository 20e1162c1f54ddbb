"""Usage: budgets of keys, metered model calls, the ledger, reports."""
