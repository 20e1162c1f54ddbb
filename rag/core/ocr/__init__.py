"""OCR: values of recognized pages, and the ports of what recognizes them."""
