"""Web pages and books made of them."""
