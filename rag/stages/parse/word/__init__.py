"""Word: numbers, revisions, form fields and signs of symbol fonts, as they are shown."""
