"""What agents keep. Session summaries for now; episodic and semantic memory will be here too."""

from __future__ import annotations
