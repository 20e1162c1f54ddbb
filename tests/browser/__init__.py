"""End-to-end browser tests: a real browser, a real server, a real worker."""
