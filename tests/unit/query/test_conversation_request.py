"""Requests about the conversation: what asks something of the answers before, and what does not."""

from __future__ import annotations

import time

import pytest

from rag.stages.query.conversation_request import MAX_CHARACTERS, parse_conversation_request


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("translate your answer", "translate"),
        ("Translate that into German please", "translate"),
        ("说简单一点", "simpler"),
        ("总结一下我们刚才聊的内容", "summary"),
        ("make it shorter", "shorter"),
        ("as a table", "table"),
        ("用英文再说一遍", "translate"),
        ("把你的回答翻译成英文", "translate"),
        ("翻译成英文", "translate"),
        ("翻译一下", "translate"),
        ("简短一点", "shorter"),
        ("再简短些", "shorter"),
        ("用表格列出来", "table"),
        ("列成表格", "table"),
        ("做成表格", "table"),
        ("请把上面的内容整理成表格", "table"),
        ("总结一下", "summary"),
        ("总结一下上面的对话", "summary"),
        ("我们刚才聊了什么", "summary"),
        ("Summarize our conversation", "summary"),
        ("Can you summarize what we discussed so far?", "summary"),
        ("What have we talked about?", "summary"),
        ("shorter please", "shorter"),
        ("Could you make that a bit shorter?", "shorter"),
        ("in bullet points", "list"),
        ("as a list", "list"),
        ("put it in a table", "table"),
        ("say that in simpler words", "simpler"),
        ("Explain it more simply", "simpler"),
        ("in plain English", "simpler"),
        ("再说一遍", "repeat"),
        ("换个说法", "repeat"),
        ("rephrase that", "repeat"),
        ("Say it again in Chinese", "translate"),
        ("in English please", "translate"),
        ("通俗一点", "simpler"),
        ("讲得通俗易懂一些", "simpler"),
        ("用一句话概括", "shorter"),
        ("太长了，短一点", "shorter"),
        ("分点列出来", "list"),
        ("能不能用表格的形式整理一下？", "table"),
        ("用中文回答", "translate"),
        ("缩短一点", "shorter"),
        ("回顾一下我们讨论的内容", "summary"),
        ("summarize the conversation", "summary"),
        ("give me a summary of our chat", "summary"),
        ("Give me a shorter version", "shorter"),
        ("TLDR", "shorter"),
        ("summarize", "summary"),
        ("把刚才的回答翻译成法语", "translate"),
        ("总结我们的对话", "summary"),
        ("用简单的话解释一下", "simpler"),
    ],
)
def test_what_is_asked_of_the_answers_before(text: str, kind: str) -> None:
    asked = parse_conversation_request(text)
    assert asked is not None and asked.kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "总结《停车场说明》",
        "summarize the safety manual",
        "translate the safety manual",
        "How do I make a table in Word?",
        "简单的安装步骤是什么？",
        "表格怎么填写？",
        "what is on page 4",
        "停车场的表格在哪里",
        "翻译费是多少？",
        "How much shorter is the new cable?",
        "英语考试什么时候？",
        "英文合同有效吗？",
        "Summarize the return policy",
        "list all files",
        "总结一下停车场的收费标准",
        "把数据导入表格的步骤",
        "它短吗？",
        "为什么？",
        "怎么用英文写合同",
        "中文说明书在哪",
        "重新安装要多久",
        "how long is it in the table",
        "in which language is the manual",
        "表",
        "点",
        "",
        "x" * 500,
    ],
)
def test_a_question_of_its_own_is_none(text: str) -> None:
    assert parse_conversation_request(text) is None


@pytest.mark.parametrize("text", ["的", "把", "a ", "我们", "say it ", "翻译"])
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    parse_conversation_request((text * MAX_CHARACTERS)[:MAX_CHARACTERS])
    assert time.process_time() - started < 0.5
