"""SQL of the database source: read-only check, parameter templates, JSON-safe results."""
