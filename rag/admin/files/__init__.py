"""Admin of files: list with live status, actions, text page, download, chunk preview."""
