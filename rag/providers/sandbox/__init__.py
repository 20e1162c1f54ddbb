"""Sandbox: parsing and rendering of uploaded files in limited child processes."""
