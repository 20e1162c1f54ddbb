"""Runtime of both wings: database access from async code, thread pools, scopes, error codes."""
