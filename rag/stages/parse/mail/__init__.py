"""Messages: their headers, text and attachments."""
