#!/usr/bin/env python
"""Runs a management command. In: argv. Out: its exit code; our errors as one sentence."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from rag.core.errors import RAGError


def main() -> None:
    """Run the command of ``sys.argv``."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    try:
        execute_from_command_line(sys.argv)
    except RAGError as error:
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
