#!/usr/bin/env python3
"""Asks a running server for decisions with OpenAI's and TypeSafe's clients for Python.

    pip install 'openai>=3.54' typesafe-sdk
    python build/clients/decisions.py http://127.0.0.1:11811
"""

import sys

import openai
from typesafe_sdk import Choice, Noul, Score, TypeSafeClient


def with_openai(url):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none needed", max_retries=0)
    ask = lambda **more: client.decisions.create(
        model="default",
        input=[
            {"role": "system", "content": "You read tickets."},
            {"role": "user", "content": [
                {"type": "input_text", "text": "I was charged twice!"},
                {"type": "input_json", "data": {"order": 4411, "charges": [12, 12]}},
            ]},
            {"type": "function_call", "call_id": "1", "name": "find",
             "arguments": '{"order":4411}'},
            {"type": "function_call_output", "call_id": "1", "output": "two charges"},
        ],
        questions=[
            {"type": "predicate", "name": "refund", "instructions": "They want money back."},
            {"type": "choice", "instructions": "Which team?", "choices": [
                {"value": "billing"}, {"value": True, "description": "any"}]},
            {"type": "score", "instructions": "How urgent?", "levels": [
                {"label": "low"}, {"label": "middle"}, {"label": "high"}]},
            {"type": "choice", "instructions": "Which?", "choices": [
                {"value": f"option {i}"} for i in range(255)]},
        ],
        **more,
    )
    first, again = ask(), ask(prompt_cache_key="k", safety_identifier="u")
    assert first.answers == again.answers, "the same request has other bits"
    predicate, choice, score, many = first.answers
    assert predicate.type == "predicate" and predicate.name == "refund"
    assert 0 <= predicate.probability <= 1
    assert choice.choice in ("billing", True) and choice.name is None
    assert [p.value for p in choice.probabilities] == ["billing", True]
    assert 0 <= score.score <= 2 and [p.value for p in score.probabilities] == [0, 1, 2]
    for answer in (choice, score, many):
        assert abs(sum(p.probability for p in answer.probabilities) - 1) < 1e-9
    assert len(many.probabilities) == 255
    assert again.usage.input_tokens_details.cached_tokens > 0
    assert again.usage.output_tokens == 0
    try:
        client.decisions.create(model="default", input="x", questions=[])
        raise AssertionError("a request without questions was accepted")
    except openai.BadRequestError as error:
        assert error.param == "questions", error


def with_typesafe(url):
    client = TypeSafeClient(api_key="none-needed", base_url=url)
    result = client.system_one(
        model="default",
        state={"ticket": "I was charged twice!"},
        questions={
            "refund": Noul(instructions="They want money back."),
            "team": Choice(criteria={"billing": "charges", "technical": None}),
            "urgency": Score(instructions="How urgent?", criteria=["low", {"level": "high"}]),
        },
    )
    assert 0 <= result.nouls["refund"].noul <= 1
    assert result.choices["team"].choice in ("billing", "technical")
    assert 0 <= result.scores["urgency"].score <= 1
    assert result.scores["urgency"].legend == {0: "low", 1: {"level": "high"}}


if __name__ == "__main__":
    url = sys.argv[1].rstrip("/")
    with_openai(url)
    with_typesafe(url)
    print("decisions: ok")
