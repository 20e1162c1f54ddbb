"""Our own connectors; importing this registers them."""

from __future__ import annotations

from rag.plugins.connectors import feed as feed
from rag.plugins.connectors import folder as folder
from rag.plugins.connectors import git as git
from rag.plugins.connectors import imap as imap
from rag.plugins.connectors import s3 as s3
from rag.plugins.connectors import web as web
from rag.plugins.connectors import webdav as webdav
