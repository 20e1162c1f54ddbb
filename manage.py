#!/usr/bin/env python
"""Runs a management command. In: argv. Out: its exit code; our errors as one sentence."""

from __future__ import annotations

from project.citable import main

if __name__ == "__main__":
    main()
