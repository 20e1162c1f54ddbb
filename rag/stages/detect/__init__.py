"""File type and encoding detection, decoding and cleaning of text."""
