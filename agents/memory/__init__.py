"""What agents keep: summaries of sessions, past questions with answers, facts that were told."""

from __future__ import annotations
