"""What nodes may be told: defaults, limits, sources that depend on each other."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from agents.core.model_options import ModelConfig, model_options
from agents.core.nodes import NODE_TYPES, node_configs, node_type, register_node
from agents.core.parse_output import schema_error
from agents.core.source_configs import DataQueryConfig, DataSourceConfig, RagNodeConfig
from agents.flows.definition.node_configs import AgentNodeConfig, HumanReviewConfig
from rag.core.errors import ConfigurationError, UnknownNameError

SEED = {
    "provider": "doubao",
    "name": "seed-1-8",
    "temperature": 0.7,
    "thinking": {"type": "enabled"},
    "reasoning_effort": "high",
    "timeout": 1800,
}


def rag(*sources: dict[str, Any], **more: Any) -> RagNodeConfig:
    return RagNodeConfig.model_validate({"data_sources": list(sources), **more})


def test_a_source_keeps_its_plugin_s_options_apart() -> None:
    source = DataSourceConfig.model_validate(
        {"type": "vector_store", "name": "kb", "collection": "c", "top_k": 5, "depends_on": "other"}
    )
    assert source.options == {"collection": "c", "top_k": 5}
    assert (source.key, source.depends_on) == ("kb", ["other"])
    assert (source.timeout, source.retries, source.cache_ttl, source.on_error) == (
        30,
        0,
        0,
        "continue",
    )
    assert DataSourceConfig(type="api").key == "api"


def test_the_defaults_are_those_of_the_description() -> None:
    config = rag({"type": "api"})
    assert (
        config.query_strategy,
        config.result_format,
        config.merge_strategy,
        config.result_key,
    ) == (
        "parallel",
        "structured",
        "append",
        "rag_results",
    )


@pytest.mark.parametrize(
    ("sources", "more", "message"),
    [
        ([], {}, "at least 1"),
        ([{"type": "a"}, {"type": "a"}], {}, "two data sources are called “a”"),
        (
            [{"type": "a", "depends_on": "b"}],
            {"query_strategy": "sequential"},
            "“a” depends on “b”, which is not among a",
        ),
        (
            [{"type": "a", "depends_on": "b"}, {"type": "b", "depends_on": "a"}],
            {"query_strategy": "sequential"},
            "a, b depend on each other",
        ),
        (
            [{"type": "a", "depends_on": "a"}],
            {"query_strategy": "sequential"},
            "a depend on each other",
        ),
        ([{"type": "a"}, {"type": "b", "depends_on": "a"}], {}, "needs query_strategy: sequential"),
        ([{"type": "a"}], {"query_strategy": "random"}, "'parallel' or 'sequential'"),
        ([{"type": "a"}], {"result_key": "prompt_vars"}, "holds something else"),
        ([{"type": "a"}], {"result_key": "a b"}, "match pattern"),
        ([{"type": "a", "timeout": 0}], {}, "greater than 0"),
        ([{"type": "a", "retries": 9}], {}, "less than or equal to 5"),
        ([{"type": "a", "on_error": "ignore"}], {}, "'continue' or 'fail'"),
    ],
)
def test_a_wrong_node_of_sources_is_refused(
    sources: list[dict[str, Any]], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        rag(*sources, **more)


def test_a_chain_of_sources_is_fine() -> None:
    config = rag(
        {"type": "a", "depends_on": ["b", "c"]},
        {"type": "b"},
        {"type": "c", "depends_on": "b"},
        query_strategy="sequential",
        result_key="政策",
    )
    assert [source.key for source in config.data_sources] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["vector_store", "faiss", "chroma", "gemini_file_search"])
def test_a_data_query_refuses_vectors_by_name(kind: str) -> None:
    with pytest.raises(ValidationError, match="kb searches by vectors"):
        DataQueryConfig.model_validate(
            {"data_sources": [{"type": kind, "name": "kb"}, {"type": "api"}]}
        )
    assert DataQueryConfig.model_validate({"data_sources": [{"type": "database"}]})


def test_a_review_cannot_decide_who_acts() -> None:
    assert HumanReviewConfig().decisions == ["approve", "reject"]
    with pytest.raises(ValidationError, match="says who acts"):
        HumanReviewConfig(result_key="token_id")


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        (["pay", "pay"], "the decision “pay” is there twice"),
        ([""], "1 to 200 characters"),
        (["  "], "1 to 200 characters"),
        (["x" * 201], "1 to 200 characters"),
        ([], "at least 1 item"),
    ],
)
def test_decisions_can_be_told_apart_and_given(decisions: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HumanReviewConfig(decisions=decisions)


def test_a_model_has_a_name_and_limits() -> None:
    model = ModelConfig.model_validate(SEED)
    assert (model.id, model.timeout, model.max_tokens) == ("doubao:seed-1-8", 1800, 2048)
    with pytest.raises(ValidationError):
        ModelConfig.model_validate({**SEED, "temperature": 3})
    with pytest.raises(ValidationError):
        AgentNodeConfig.model_validate({"prompt": "p", "modle": SEED})
    with pytest.raises(ValidationError, match="write {provider: openai, name: gpt-4}"):
        AgentNodeConfig.model_validate({"prompt": "p", "model": "openai:gpt-4"})
    with pytest.raises(
        ValidationError, match="“\\[1\\]” is no model: write {provider: …, name: …}"
    ):
        AgentNodeConfig.model_validate({"prompt": "p", "model": [1]})


@pytest.mark.parametrize(
    ("model_id", "model", "options"),
    [
        ("doubao:x", SEED, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        (
            "doubao:x",
            {
                **SEED,
                "thinking": {"type": "enabled", "budget_tokens": 99},
                "reasoning_effort": None,
            },
            {"thinking": {"type": "enabled", "budget_tokens": 99}},
        ),
        ("doubao:x", None, {}),
        ("openai_compatible:x", {"provider": "p", "name": "n"}, {}),
        ("gemini:x", SEED, {"thinking_level": "HIGH"}),
        (
            "gemini:x",
            {**SEED, "reasoning_effort": None, "thinking": {"type": "disabled"}},
            {"thinking_budget": 0},
        ),
        ("gemini:x", {**SEED, "reasoning_effort": None}, {"thinking_budget": -1}),
        (
            "gemini:x",
            {**SEED, "reasoning_effort": None, "thinking": {"type": "enabled", "budget_tokens": 9}},
            {"thinking_budget": 9},
        ),
        ("extractive:sentences", SEED, {}),
        ("scripted:a.yaml", SEED, {}),
    ],
)
def test_thinking_and_effort_are_said_in_the_provider_s_words(
    model_id: str, model: dict[str, Any] | None, options: dict[str, Any]
) -> None:
    config = None if model is None else ModelConfig.model_validate(model)
    assert model_options(model_id, config, None) == options


def test_a_form_is_asked_of_the_provider() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    openai = model_options("doubao:x", None, schema)["response_format"]
    assert openai == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": False},
    }
    gemini = model_options("gemini:x", None, schema)
    assert gemini == {"response_mime_type": "application/json", "response_json_schema": schema}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"a": "x", "n": 1}, ""),
        ({"n": 1}, "“a” is missing."),
        ({"a": 1}, "“a” is not of type string."),
        ({"a": "x", "n": True}, "“n” is not of type integer or null."),
        ({"a": "x", "n": None}, ""),
        ({"a": "z"}, "“a” is none of x, y."),
        ({"a": "y", "more": 1}, ""),
    ],
)
def test_an_answer_of_another_form_is_told_why(value: dict[str, Any], fault: str) -> None:
    schema = {
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "enum": ["x", "y"]},
            "n": {"type": ["integer", "null"]},
        },
    }
    assert schema_error(schema, value) == fault


class Config(BaseModel):
    pass


class Other:
    name, label, Config = "agent", "Other", Config

    async def run(self, state: Any, config: Any, run: Any) -> dict[str, Any]:
        return {}


def test_node_types_are_plugins_with_names_of_their_own() -> None:
    assert set(node_configs()) >= {"agent", "rag", "data_query", "human_review"}
    with pytest.raises(ConfigurationError, match="Two node types are called “agent”"):
        register_node(Other)
    with pytest.raises(ConfigurationError, match="has no “run”"):
        register_node(type("Half", (), {"name": "half", "label": "", "Config": Config}))
    with pytest.raises(UnknownNameError, match="Known: agent"):
        node_type("rag_file")
    assert register_node(NODE_TYPES["agent"]) is NODE_TYPES["agent"]
