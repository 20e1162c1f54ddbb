"""Stores: create, find, update, delete, and export to and import from a file."""
