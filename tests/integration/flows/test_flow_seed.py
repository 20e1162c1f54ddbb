"""Texts of the description beside its full example, as written: node, edges, prompt, results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents.core.parse_output import parse_output
from agents.core.prompts import fill_prompt, placeholders
from agents.flows.definition.archive import FlowFiles
from agents.flows.definition.conditions import choose_edge
from agents.flows.definition.definition import Flow
from agents.flows.definition.source_results import format_results
from agents.flows.definition.state import initial_state
from agents.flows.versions.dry_run import DryRunLog, ExpectedOutcome, FlowCase
from agents.flows.versions.load import compiled_graph_of_files, load_flow
from agents.flows.versions.versions import check_flow_files
from rag.core.access import Scope
from rag.services.wiring.registry import model_of_script
from tests.factories import StoreFactory
from tests.integration.flow_world import house as house

NODE = """\
nodes:
  # RAG检索节点
  - name: rag_retrieval
    type: rag  # 新节点类型
    config:
      # 数据源配置
      data_sources:
        - type: vector_store  # 向量数据库
          name: medical_knowledge_base
          collection: medical_docs
          top_k: 5
          similarity_threshold: 0.7
        - type: database  # 关系数据库
          name: patient_records
          query_template: |
            SELECT * FROM patients 
            WHERE user_id = {user_id} 
            AND created_at > {date_range}
        - type: api  # 外部API
          name: external_service
          endpoint: https://api.example.com/search
          params:
            query: "{user_query}"
      
      # 查询策略
      query_strategy: parallel  # parallel（并行）或 sequential（串行）
      
      # 结果处理
      result_format: structured  # structured（结构化）或 raw（原始）
      merge_strategy: append  # append（追加）或 replace（替换）
      
      # 结果存储字段
      result_key: rag_results  # 存储到 state.rag_results
"""
EDGES = """\
edges:
  # RAG检索 → 模型分析
  - from: rag_retrieval
    to: model_analysis
    condition: always
  
  # 模型分析 → 条件路由
  - from: model_analysis
    to: branch_sufficient
    condition: analysis_result == "sufficient" && confidence >= 0.8
  
  - from: model_analysis
    to: branch_insufficient
    condition: analysis_result == "insufficient" || confidence < 0.6
  
  - from: model_analysis
    to: branch_need_verification
    condition: analysis_result == "need_verification" && data_quality == "low"
  
  # 分支节点 → 后续处理
  - from: branch_sufficient
    to: generate_report
    condition: always
  
  - from: branch_insufficient
    to: request_additional_info
    condition: always
  
  - from: branch_need_verification
    to: human_review
    condition: always
"""
# What the fragments leave out.
REST = (
    "name: fragments\nentry_node: rag_retrieval\ninputs: {user_id: whose, date_range: since when}\n"
)
AGENTS = (
    "model_analysis",
    "branch_sufficient",
    "branch_insufficient",
    "branch_need_verification",
    "generate_report",
    "request_additional_info",
)
PROMPT = """\
## 知识库内容

{rag_context}

```json
{
  "response_content": "给用户的回答内容",
  "analysis_result": "sufficient|insufficient|need_verification",
  "confidence": 0.0-1.0,
  "data_quality": "high|medium|low",
  "additional_fields": {
    "suggested_actions": ["建议的操作"],
    "risk_level": "low|medium|high"
  }
}
```

## 用户问题

{user_query}
"""
RESULTS: Mapping[str, Any] = {
    "medical_knowledge_base": [
        {
            "content": "文档内容...",
            "score": 0.85,
            "metadata": {"source": "medical_guide_2024.pdf", "page": 42, "section": "高血压治疗"},
        }
    ],
    "patient_records": [
        {
            "patient_id": "12345",
            "diagnosis": "高血压",
            "medications": ["药物A", "药物B"],
            "last_visit": "2024-01-15",
        }
    ],
    "external_service": {
        "status": "success",
        "data": {"latest_guidelines": "...", "update_date": "2024-01-20"},
    },
}
OUTPUT = """{
  "response_content": "用户的回答内容...",
  "analysis_result": "ANALYSIS",
  "confidence": CONFIDENCE,
  "data_quality": "low",
  "reasoning_summary": "分析过程摘要...",
  "additional_fields": {
    "suggested_actions": ["action1", "action2"],
    "risk_level": "low"
  }
}"""


def files() -> FlowFiles:
    agents = "".join(
        f"  - {{name: {name}, type: agent, config: {{prompt: p.md}}}}\n" for name in AGENTS
    )
    review = "  - {name: human_review, type: human_review}\n"
    ends = "".join(
        f"  - {{from: {name}, to: END}}\n"
        for name in ("generate_report", "request_additional_info", "human_review")
    )
    return FlowFiles(REST + NODE + agents + review + EDGES + ends, {"p.md": PROMPT})


def flow() -> Flow:
    found = files()
    return load_flow(yaml=found.yaml, prompts=found.prompts)


@pytest.mark.django_db
def test_the_fragments_pass_the_checks(house: None) -> None:
    StoreFactory(name="medical_docs")
    found = check_flow_files(files=files(), scope=Scope.operator())
    assert [one.text for one in found if one.level == "error"] == []
    undeclared = FlowFiles(files().yaml.replace("inputs:", "inputs: {} #"), files().prompts)
    texts = [one.text for one in check_flow_files(files=undeclared, scope=Scope.operator())]
    assert any("{user_id}" in text for text in texts) and any("{date_range}" in t for t in texts)


@pytest.mark.parametrize(
    ("analysis", "confidence", "route"),
    [
        ("sufficient", 0.85, ["branch_sufficient", "generate_report"]),
        ("insufficient", 0.9, ["branch_insufficient", "request_additional_info"]),
        ("sufficient", 0.5, ["branch_insufficient", "request_additional_info"]),
        ("need_verification", 0.7, ["branch_need_verification", "human_review"]),
    ],
)
def test_the_fragments_run(analysis: str, confidence: float, route: list[str]) -> None:
    answer = OUTPUT.replace("ANALYSIS", analysis).replace("CONFIDENCE", str(confidence))
    case = FlowCase(
        name="x", message="血压高怎么办", sources=dict(RESULTS), expect=ExpectedOutcome()
    )
    model = model_of_script(script={"answers": [], "default": answer}, name="x")
    log = DryRunLog(flow(), case, model)
    given = {"user_id": "12345", "date_range": "2024-01-01"}
    end = async_to_sync(compiled_graph_of_files(files=files()).run)(
        initial_state(flow().definition, case.message, given), log
    )
    assert log.route == ["rag_retrieval", "model_analysis", *route]
    assert bool(end.paused) == ("human_review" in route)
    variables = end.state["edges_var"]
    assert (variables["risk_level"], variables["suggested_actions"]) == (
        "low",
        ["action1", "action2"],
    )
    assert "reasoning_summary" not in variables and "response_content" not in variables
    assert end.state["rag_results"]["patient_records"] == RESULTS["patient_records"]
    context = end.state["query_context"]
    assert context["query_text"] == "血压高怎么办" and context["result_count"] == 3
    assert context["data_sources"] == list(RESULTS) and re.match(
        r"\d{4}-\d\d-\d\dT", context["query_time"]
    )


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    [
        (
            'analysis_result == "sufficient" && confidence >= 0.8',
            {"analysis_result": "sufficient", "confidence": 0.85},
            True,
        ),
        (
            'analysis_result == "insufficient" || confidence < 0.6',
            {"analysis_result": "x", "confidence": 0.55},
            True,
        ),
        (
            '(analysis_result == "need_verification" && data_quality == "low") || risk_level == "high"',
            {"analysis_result": "x", "risk_level": "high"},
            True,
        ),
        (
            '(analysis_result == "need_verification" && data_quality == "low") || risk_level == "high"',
            {"analysis_result": "need_verification", "data_quality": "high", "risk_level": "low"},
            False,
        ),
    ],
)
def test_the_conditions_of_the_description_hold(
    condition: str, values: dict[str, Any], holds: bool
) -> None:
    edges = [*flow().definition.edges[:1]]
    tried = [
        edges[0].model_copy(update={"condition": condition, "targets": ["yes"]}),
        edges[0].model_copy(update={"condition": "default", "targets": ["no"]}),
    ]
    assert choose_edge("n", tried, values).targets == (("yes",) if holds else ("no",))


def test_its_prompt_keeps_its_json_and_gets_its_results() -> None:
    assert placeholders(PROMPT) == ("rag_context", "user_query")
    context = format_results(RESULTS, 4000, len)
    filled = fill_prompt(PROMPT, {"rag_context": context, "user_query": "血压高怎么办"})
    assert '"confidence": 0.0-1.0' in filled and '"suggested_actions": ["建议的操作"]' in filled
    assert "medical_guide_2024.pdf, p. 42, 高血压治疗 (0.85)\n文档内容..." in filled
    assert "diagnosis: 高血压" in filled and "latest_guidelines" in filled
    assert filled.endswith("血压高怎么办\n")


def test_its_output_becomes_the_variables_that_it_says() -> None:
    output = parse_output(OUTPUT.replace("ANALYSIS", "sufficient").replace("CONFIDENCE", "0.85"))
    assert dict(output.variables) == {
        "analysis_result": "sufficient",
        "confidence": 0.85,
        "data_quality": "low",
        "risk_level": "low",
        "suggested_actions": ["action1", "action2"],
    }


@pytest.mark.django_db
def test_a_secret_that_the_installation_lacks_is_found(house: None, settings: Any) -> None:
    config = "{data_sources: [{type: api, name: crm, endpoint: 'https://example.org/s', auth: bearer, secret: crm_key}]}"
    text = f"name: x\nentry_node: f\nnodes: [{{name: f, type: rag, config: {config}}}]\nedges: [{{from: f, to: END}}]\n"
    settings.RAG = {**settings.RAG, "SECRETS": {"other": "s3cret"}}
    (found,) = check_flow_files(files=FlowFiles(text), scope=Scope.operator())
    assert (found.level, found.line) == ("error", 3)
    assert "Unknown secret “crm_key”. Known: other." in found.text and "s3cret" not in found.text
    settings.RAG = {**settings.RAG, "SECRETS": {"crm_key": "s3cret"}}
    assert check_flow_files(files=FlowFiles(text), scope=Scope.operator()) == []
