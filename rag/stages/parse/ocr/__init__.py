"""OCR: pictures of pages, their recognized words, and these as words of the layout."""
