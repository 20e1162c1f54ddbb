"""Agents: found, saved, built from their rows with one person's rights, and run."""
