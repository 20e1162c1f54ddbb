"""Guarded HTTP client: fetches addresses that people configured, safe from SSRF."""
