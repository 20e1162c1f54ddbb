"""PDF layout: words with boxes become lines, paragraphs and tables in reading order."""
