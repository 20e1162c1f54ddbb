"""Text files: Markdown, programs, logs and plain text."""
