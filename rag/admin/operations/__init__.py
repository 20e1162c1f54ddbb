"""Admin of operations: dashboard, query log, jobs, reindex runs, usage and budgets, audit log."""
