"""Django admin of stores, connections, files, chunks, evaluation, operations and keys.

Pages parse, call one service and render; every queryset and permission is limited by a Scope.
"""

from __future__ import annotations

from rag.admin.accounts import api_key
from rag.admin.chunks import chunk, conflict, revision
from rag.admin.connectors import connection
from rag.admin.evaluation import golden, run
from rag.admin.files import file
from rag.admin.operations import audit, job, query_log, reindex, usage, webhook
from rag.admin.stores import embedding_space, store
