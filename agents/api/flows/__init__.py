"""Flows API: definitions, versions, runs."""
