"""Evaluation: golden questions, runs with retrieval metrics, comparison, the hit test."""

from __future__ import annotations

from rag.services.evaluation.answers import evaluate_answers
from rag.services.evaluation.compare import RunComparison, compare_runs
from rag.services.evaluation.datasets import (
    MODES,
    Evaluation,
    check_limit,
    ensure_corpus_store,
    evaluate_folder,
    rank_documents,
)
from rag.services.evaluation.golden_csv import (
    FIELDS,
    MAX_BYTES,
    TargetResolver,
    export_questions,
    import_questions,
)
from rag.services.evaluation.golden_questions import (
    MAX_TARGETS,
    TargetSpec,
    save_question,
    set_targets,
)
from rag.services.evaluation.hit_test import HitTest, run_hit_test
from rag.services.evaluation.runs import (
    cancel_evaluation,
    evaluate_store,
    evaluation_search,
    fail_evaluation,
    run_evaluation_job,
    start_evaluation,
)
from rag.services.evaluation.smoke import (
    VERDICTS,
    SmokeAnswer,
    SmokeSummary,
    smoke_model,
    summarize_smoke,
    writing_model,
)
