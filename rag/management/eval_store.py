"""``rag_eval --store``: evaluates golden questions, compares with an earlier run, checks limits."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from rag import models
from rag.core.errors import NotFoundError
from rag.core.types import RetrievalSettings
from rag.evals.metrics import MAIN_MEASURE, MEASURES
from rag.management.progress import stage_bars
from rag.management.rag_command import named_store, reject_unused_options
from rag.services.evaluation import (
    MODES,
    RunComparison,
    check_limit,
    compare_runs,
    evaluate_answers,
    evaluate_store,
)

_ANSWERS = ("citation_precision", "refusal_rate", "expected_cited")
_OF_STORE = (
    "retrieval",
    "space",
    "answers",
    "model",
    "label",
    "against",
    "min_ndcg",
    "max_drop",
)


def add_store_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments that belong to ``--store``."""
    only = parser.add_argument_group("with --store")
    only.add_argument(
        "--retrieval", type=_settings_json, metavar="JSON", help="settings that differ from its own"
    )
    only.add_argument("--space", type=int, metavar="ID", help="search in this embedding space")
    only.add_argument("--answers", action="store_true", help="ask the chat model too")
    only.add_argument("--model", default="", metavar="P:M", help="that chat model; with --answers")
    only.add_argument("--label", default="", help="what the run is called")
    only.add_argument(
        "--against", type=int, metavar="RUN", help="compare with this run, not the last one"
    )
    only.add_argument("--min-ndcg", type=float, metavar="X", help="fail when nDCG@10 is below")
    only.add_argument(
        "--max-drop", type=float, metavar="X", help="fail when nDCG@10 fell by more than this"
    )


def reject_store_options(options: dict[str, Any]) -> None:
    """Raise CommandError for an option that would do nothing with what is measured."""
    others, of = (("queries",), "--data") if options["store"] else (_OF_STORE, "--store")
    reject_unused_options(options, others, with_what=of)
    if options["store"] and options["mode"] == "all":
        raise CommandError("--mode all goes with --data only.")


def evaluate_golden(out: OutputWrapper, options: dict[str, Any]) -> None:
    """Run, print and judge; CommandError (exit code 1) when a limit is not kept, RAGError else."""
    store = named_store(options["store"])
    before = _before(store, options["against"])
    run = _run(store, options)
    comparison = None
    if before is not None and (options["against"] or _share(before, run)):
        comparison = compare_runs(before=before, after=run)
    elif before is not None:
        out.write(f"note: run {before.pk} shares no question with this one; nothing is compared")
    if options["json"]:
        out.write(json.dumps(_as_dict(run, before, comparison), ensure_ascii=False))
    else:
        _print(out, run, before, comparison)
    _judge(run, comparison, options)


def _settings_json(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text} is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise ArgumentTypeError(f'{text} is no JSON object, such as {{"top_k": 5}}')
    return values


def _share(before: models.EvaluationRun, after: models.EvaluationRun) -> bool:
    asked = after.results.filter(question__isnull=False).values("question")
    return before.results.filter(question__in=asked).exists()


def _before(store: models.Store, asked: int | None) -> models.EvaluationRun | None:
    runs = models.EvaluationRun.objects.done().filter(store=store).order_by("-pk")
    if asked is None:
        return runs.first()
    run = runs.filter(pk=asked).first()
    if run is None:
        raise NotFoundError("The store has no evaluation run {id}.", id=asked)
    return run


def _run(store: models.Store, options: dict[str, Any]) -> models.EvaluationRun:
    own = store.retrieval_settings
    settings = RetrievalSettings.from_dict({**own.as_dict(), **(options["retrieval"] or {})})
    check_limit(limit=options["limit"])
    if options["mode"]:
        settings = settings.but(mode=MODES[options["mode"]])
    questions = list(store.golden_questions.askable().order_by("pk")[: options["limit"]])
    with stage_bars() as show:
        run = evaluate_store(
            store=store,
            settings=settings,
            space_id=options["space"],
            questions=questions,
            facts={"label": options["label"][:200]},
            on_result=lambda asked: show("searching", 1, len(questions)),
        )
        if options["answers"]:
            evaluate_answers(
                run=run,
                model=options["model"],
                on_answered=lambda result: show("answering", 1, run.n_questions),
            )
    return run


def _print(
    out: OutputWrapper,
    run: models.EvaluationRun,
    before: models.EvaluationRun | None,
    comparison: RunComparison | None,
) -> None:
    out.write(
        f"run {run.pk}: {run.store.name}, {run.n_questions} questions, {run.model}, settings "
        f"{run.settings_hash}" + (f", {run.n_lost} passages lost" if run.n_lost else "")
    )
    out.write("         " + "".join(f"{name:>9}" for name in MEASURES))
    if before is not None and comparison is not None:
        befores = "".join(f"{comparison.measures[name].before:9.3f}" for name in MEASURES)
        out.write(
            f"before   {befores}   run {before.pk}, {len(comparison.questions)} shared questions"
        )
    out.write("now      " + "".join(f"{run.metrics[name]:9.3f}" for name in MEASURES))
    if comparison is not None:
        ps = "".join(f"{comparison.measures[name].p_value:9.3f}" for name in MEASURES)
        main = comparison.main
        out.write(f"p        {ps}   {'differs' if main.is_significant else 'no proof of a change'}")
        out.write(
            f"{MAIN_MEASURE}: {main.difference:+.3f} (95 %: {main.low:+.3f} to {main.high:+.3f}); "
            f"{main.n_better} better, {main.n_worse} worse, {main.n_same} the same"
        )
        for one in comparison.questions:
            if one.difference:
                was, now = one.before[MAIN_MEASURE], one.after[MAIN_MEASURE]
                out.write(f"  {one.difference:+.3f}  {was:.3f} > {now:.3f}  {one.query[:80]}")
    for name in _ANSWERS:
        if name in run.metrics:
            out.write(f"{name}: {run.metrics[name]:.3f}")


def _as_dict(
    run: models.EvaluationRun, before: models.EvaluationRun | None, comparison: RunComparison | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "run": run.pk,
        "store": run.store.slug,
        "model": run.model,
        "space": run.space_id,
        "settings": run.settings_hash,
        "questions": run.n_questions,
        "lost": run.n_lost,
        **run.metrics,
    }
    if before is not None and comparison is not None:
        main = comparison.main
        found["against"] = {
            "run": before.pk,
            "questions": len(comparison.questions),
            "before": main.before,
            "after": main.after,
            "difference": main.difference,
            "low": main.low,
            "high": main.high,
            "p_value": main.p_value,
            "changed": [
                {
                    "query": one.query,
                    "before": one.before[MAIN_MEASURE],
                    "after": one.after[MAIN_MEASURE],
                }
                for one in comparison.questions
                if one.difference
            ],
        }
    return found


def _judge(
    run: models.EvaluationRun, comparison: RunComparison | None, options: dict[str, Any]
) -> None:
    least, most = options["min_ndcg"], options["max_drop"]
    if least is not None and run.metrics[MAIN_MEASURE] < least:
        raise CommandError(f"{MAIN_MEASURE} is {run.metrics[MAIN_MEASURE]:.3f}, below {least:g}.")
    if most is not None and comparison is not None and comparison.is_worse_by(most):
        raise CommandError(
            f"{MAIN_MEASURE} fell by {-comparison.main.difference:.3f}, more than {most:g}."
        )
