"""Gemini File Search: its client, its stores beside our rows, synchronisation and upload."""
