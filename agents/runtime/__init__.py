"""Runtime of both wings: scopes of runs and sessions, error codes."""
