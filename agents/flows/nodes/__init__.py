"""Built-in node types; importing this registers them. Each is one module."""

from __future__ import annotations

from agents.flows.nodes import (
    agent,
    answer,
    assign,
    classify,
    data_query,
    extract,
    http_request,
    human_review,
    iteration,
    rag,
    rag_files,
    subflow,
    template,
)
