"""Command line: ``citable demo``, ``citable serve``, ``citable COMMAND``; also that of manage.py.

Arguments in, an exit code out; errors of ours as one sentence.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

from django.core.management import execute_from_command_line
from django.db import OperationalError, ProgrammingError

from rag.core.errors import RAGError

# Start-up makes 300,000 objects that stay; Python would look for cycles among them 400 times.
gc.set_threshold(20_000, 20, 20)
_SHORT = {name: f"rag_{name}" for name in ("ask", "demo", "doctor", "ingest", "key", "serve")}


def main() -> None:
    """Run the command of ``sys.argv``."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    try:
        execute_from_command_line([sys.argv[0], *_command(sys.argv[1:])])
    except KeyboardInterrupt as error:
        _end(error, "Stopped by Ctrl+C.", 130)
    except RAGError as error:
        _end(error, str(error))
    except OperationalError as error:
        # Only a failure to connect has no SQLSTATE: no server has answered.
        if getattr(error.__cause__, "sqlstate", "") is not None:
            raise
        words = " ".join(str(error).split())
        _end(error, f"The database does not answer: {words} Check DATABASE_URL and the server.")
    except ProgrammingError as error:
        if getattr(error.__cause__, "sqlstate", "") != "42P01":  # undefined table
            raise
        _end(error, "The database is not prepared. Run: manage.py migrate")


def _command(words: list[str]) -> list[str]:
    """Return the words of a management command; the product's own may be said without rag_."""
    return [_SHORT.get(words[0], words[0]), *words[1:]] if words else words


def _end(error: BaseException, sentence: str, code: int = 1) -> NoReturn:
    if "--traceback" in sys.argv:
        raise error
    sys.stderr.write(f"Error: {sentence}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
