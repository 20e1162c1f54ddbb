"""The Django project: settings, URLs, servers. Nothing here knows retrieval."""
