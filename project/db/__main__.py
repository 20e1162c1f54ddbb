"""``python -m project.db start|stop``: the embedded server by hand. Out: a dsn for psql."""

from __future__ import annotations

import argparse
import os
import sys

from django.conf import settings

from project.db.base import ensure_server, stop_server
from rag.core.errors import RAGError


def main() -> None:
    """Start the server of the settings and print how to connect to it, or stop it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    parser = argparse.ArgumentParser(prog="python -m project.db", description=main.__doc__)
    parser.add_argument("action", choices=("start", "stop"))
    action = parser.parse_args().action
    if settings.POSTGRES_DATA_DIR is None:
        sys.exit("DATABASE_URL is set: the embedded PostgreSQL is not used.")
    try:
        if action == "stop":
            stop_server()
        else:
            name = settings.DATABASES["default"]["NAME"]
            print(ensure_server(name).replace("dbname=postgres", f"dbname={name}"))
    except RAGError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
