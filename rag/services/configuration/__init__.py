"""Configuration as files: what is set by people, written as YAML and applied from it."""

from __future__ import annotations

from rag.services.configuration import store_sections as store_sections
from rag.services.configuration.apply import Applied, apply_configuration, export_configuration
from rag.services.configuration.people import group_names, named_groups, named_owner
from rag.services.configuration.sections import ConfigItem, ConfigSection, register_section
