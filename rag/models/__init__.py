"""Tables, constraints, querysets: facts without behaviour; no network, no signals."""

from __future__ import annotations

from rag.models.api_key import ApiKey
from rag.models.audit import AuditEntry
from rag.models.chunk import Chunk, ChunkConflict, ChunkRevision, DroppedSpan
from rag.models.connection import Connection, SyncRun
from rag.models.evaluation import EvaluationResult, EvaluationRun
from rag.models.file import File
from rag.models.golden import GoldenQuestion, GoldenTarget
from rag.models.outbox import OutboxRow
from rag.models.query_log import QueryLog
from rag.models.rag_node import RagNode
from rag.models.reindex import ReindexRun
from rag.models.repeatable_request import RepeatableRequest
from rag.models.scanned_page import ScannedPage
from rag.models.space import EmbeddingSpace
from rag.models.store import Store
from rag.models.usage import Budget, BudgetHold, UsageRecord
from rag.models.webhook import Webhook, WebhookDelivery
