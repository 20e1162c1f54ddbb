"""Runtime of both wings: workers, leases, event logs, scopes, retention, errors of events."""
