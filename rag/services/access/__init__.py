"""Access: API keys, callers, rate limits, audit."""

from __future__ import annotations

from rag.services.access.api_keys import (
    Caller,
    authenticate_key,
    caller_for_user,
    create_key,
    is_live_key,
    revoke_key,
    scope_of,
    validate_key,
)
from rag.services.access.audit import install_actor_wrapper, purge_audit
from rag.services.access.kept_groups import keep_group
from rag.services.access.rate_limits import (
    RateLimit,
    count_failed_call,
    count_key_call,
    count_user_call,
    count_visitor_call,
)
from rag.services.access.repeats import (
    Repeatable,
    claim_request,
    forget_request,
    keep_result,
)
