"""Versions of flows: saved, checked, activated, imported, exported, rendered and tried on cases."""
