"""OpenDocument ([OASIS ODF 1.3]): texts and slides, and what spreadsheets share with them."""
