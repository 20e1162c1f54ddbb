"""Upgrades, backup and restore: data of an older release in the present code, by whole processes."""
