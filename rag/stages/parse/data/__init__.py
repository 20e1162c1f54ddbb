"""Data files: JSON, YAML, XML and settings by their structure, notebooks and subtitles."""
