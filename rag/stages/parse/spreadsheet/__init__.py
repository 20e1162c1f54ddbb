"""Spreadsheets: cells as they are shown, and the tables that they form."""
