"""Writes what Jinja2 makes of chat templates, for engine/chat/peer_test.go.

Usage: render.py FOLDER > prompts.json        (needs jinja2 3.1)

FOLDER holds the templates, as files named *.jinja. Each template meets each conversation of
CONVERSATIONS, in the environment of engine/chat/jinja/testdata/environment.py. The result is a
list of {template, conversation, want} or, if the template refuses the conversation or fails on
it, {template, conversation, error}. The conversations come along, in the form that OpenAI's
clients send.
"""
import copy
import json
import pathlib
import re
import sys

import jinja2.meta

sys.path.append(str(pathlib.Path(__file__).parents[3] / "engine/chat/jinja/testdata"))
from environment import Raised, env

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def function(name, description, parameters):
    return {"type": "function", "function": {"name": name, "description": description,
                                             "parameters": parameters}}


WEATHER = function("get_weather", "Current weather, \"as measured\" & <exact>", {
    "type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Name of the city, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}}})
SEARCH = function("search", "Searches files.\nReturns lines.", {
    "type": "object", "required": ["query", "options"], "additionalProperties": False,
    "$defs": {"range": {"type": "object", "properties": {"from": {"type": "integer"}}}},
    "properties": {
        "query": {"type": ["string", "null"], "description": "What to look for"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "At most",
                  "default": None},
        "exact": {"type": "boolean"}, "weight": {"type": "number", "minimum": 0.5},
        "paths": {"type": "array", "items": {"type": "string"}},
        "range": {"$ref": "#/$defs/range"},
        "options": {"type": "object", "properties": {"depth": {"type": "integer"}},
                    "required": ["depth"]}}})
NOW = function("now", "The time", {"type": "object", "properties": {}})
TOOLS = [WEATHER, SEARCH, NOW]


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, reasoning=None, calls=()):
    message = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function",
             "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}
            for call_id, name, arguments in calls]
    return message


def tool(call_id, name, text):
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": text}


ARGUMENTS = {"query": "a\n\"b\" 'c' \\ <d> & é 👩‍🚀", "limit": 3, "exact": True, "weight": 2.5,
             "paths": ["x", "y z"], "options": {"depth": 1, "more": {"list": [1, None, False]}}}
CALL = ("call00001", "get_weather", {"city": "Zürich", "unit": "celsius"})
TWO = [("call00001", "search", ARGUMENTS), ("call00002", "now", {})]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

# Each is messages, tools and the variables of the request.
CONVERSATIONS = {
    "user": ([user("Hello")], None, {}),
    "system and user": ([system("Be brief."), user("Hello 👋")], None, {}),
    "developer": ([{"role": "developer", "content": "Be brief."}, user("Hello")], None, {}),
    "white space": ([system("  a \n"), user("\n b\t\n"), assistant(" c \n\n"), user("\nd ")],
                    None, {}),
    "several turns": ([system("S"), user("1"), assistant("one"), user("2"), assistant("two"),
                       user("3")], None, {}),
    "no generation prompt": ([user("1"), assistant("one")], None,
                             {"add_generation_prompt": False}),
    "reasoning in text": ([user("1"), assistant("<think>\nwhy\n</think>\n\none"), user("2")],
                          None, {}),
    "reasoning": ([user("1"), assistant("one", "why\nso"), user("2"),
                   assistant("two", "again"), user("3")], None, {}),
    "thinking on": ([user("1"), assistant("one", "why"), user("2")], None,
                    {"enable_thinking": True, "thinking": True}),
    "thinking off": ([system("S /no_think"), user("1")], None,
                     {"enable_thinking": False, "thinking": False}),
    "effort high": ([system("S"), user("1")], None, {"reasoning_effort": "high"}),
    "effort low": ([user("1")], None, {"reasoning_effort": "low"}),
    "tools": ([user("Weather?")], TOOLS, {}),
    "tools and system": ([system("Be brief."), user("Weather?")], TOOLS, {}),
    "call": ([user("Weather?"), assistant("", None, [CALL])], TOOLS,
             {"add_generation_prompt": False}),
    "result": ([system("S"), user("Weather?"), assistant("", None, [CALL]),
                tool("call00001", "get_weather", '{"t": 21.5}')], TOOLS, {}),
    "two calls": ([user("Go"), assistant("Well.", "hm", TWO),
                   tool("call00001", "search", "line 1\nline 2"),
                   tool("call00002", "now", "12:00")], TOOLS, {}),
    "calls and an answer": ([system("S"), user("Go"), assistant("", "I search", [TWO[0]]),
                             tool("call00001", "search", "nothing"),
                             assistant("", "and once more", [TWO[1]]),
                             tool("call00002", "now", "12:00"),
                             assistant("It is noon.", "done"), user("Thanks. And now?")],
                            TOOLS, {}),
    "a call without content": ([user("Go"), {
        "role": "assistant", "content": None, "tool_calls": [
            {"id": "call00001", "type": "function",
             "function": {"name": "now", "arguments": "{}"}}]},
        tool("call00001", "now", "12")], TOOLS, {}),
    "calls without tools": ([user("Go"), assistant("", None, [CALL]),
                             tool("call00001", "get_weather", "rain"), user("Sure?")], None, {}),
    "text parts": ([user("x"), assistant("y"),
                    {"role": "user", "content": [{"type": "text", "text": "one"},
                                                 {"type": "text", "text": " two"}]}], None, {}),
    "image": ([{"role": "user", "content": [IMAGE, {"type": "text", "text": "What?"}]}], None, {}),
    "no messages": ([], None, {}),
    "assistant first": ([assistant("I begin"), user("1")], None, {}),
    "two users": ([user("1"), user("2")], None, {}),
    "system later": ([user("1"), assistant("one"), system("S"), user("2")], None, {}),
    "two systems": ([system("S"), system("T"), user("1")], None, {}),
    "only a system": ([system("S")], None, {}),
    "a result without a call": ([user("1"), tool("call00001", "now", "12")], TOOLS, {}),
    "a short id": ([user("1"), assistant("", None, [("c1", "now", {})]), tool("c1", "now", "12"),
                    assistant("Noon."), user("2")], TOOLS, {}),
    "another role": ([{"role": "critic", "content": "Hm"}, user("1")], None, {}),
    "other variables": ([system("S"), user("1")], TOOLS, {
        "date_string": "2026-03-04", "builtin_tools": ["code_interpreter"],
        "tools_in_user_message": False, "documents_": [1], "custom_tools": None,
        "keep_past_thinking": True, "preserve_thinking": False, "clear_thinking": False}),
}


def decoded(messages):
    """The messages as a template gets them: no null content, arguments as objects."""
    messages = copy.deepcopy(messages)
    for m in messages:
        if m["content"] is None:
            m["content"] = ""
        for call in m.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return messages


def joined(messages):
    """The messages with lists of text parts as strings."""
    messages = copy.deepcopy(messages)
    for m in messages:
        if isinstance(m["content"], list) and all(p["type"] == "text" for p in m["content"]):
            m["content"] = "".join(p["text"] for p in m["content"])
    return messages


def as_text(messages):
    """The messages with the arguments of calls as JSON text, for templates that fail otherwise."""
    messages = copy.deepcopy(messages)
    for m in messages:
        for call in m.get("tool_calls", []):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"],
                                                       ensure_ascii=False)
    return messages


def own_variables(names, tools):
    """The variables of FireFunction 2, whose template reads functions instead of tools."""
    if "functions" not in names or "tools" in names:
        return {}
    functions = [tool["function"] for tool in tools or []]
    return {"datetime": "2026-03-04",
            "functions": json.dumps(functions, indent=4, ensure_ascii=False) if tools else ""}


def with_thinking(source, messages):
    """The messages with reasoning as thinking too, for templates that read that."""
    if re.search(r"message\.thinking\b|message\[['\"]thinking['\"]\]", source):
        for m in messages:
            if m.get("reasoning_content"):
                m["thinking"] = m["reasoning_content"]
                if "tool_calls" in m and "<|channel|>" in source:
                    m["content"] = ""
    return messages


def render(template, messages, tools, variables):
    result = render_as_is(template, messages, tools, variables)
    if "error" in result and any("tool_calls" in m for m in messages):
        text = render_as_is(template, as_text(messages), tools, variables)
        return result if "error" in text else text
    return result


def render_as_is(template, messages, tools, variables):
    given = {"add_generation_prompt": True, **SPECIAL, **variables}
    try:
        return {"want": template.render(messages=messages, tools=copy.deepcopy(tools),
                                        documents=None, **given)}
    except Raised as e:
        return {"error": str(e), "raised": True}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def main():
    results = []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        template = env.from_string(source)
        names = jinja2.meta.find_undeclared_variables(env.parse(source))
        for name, (messages, tools, variables) in CONVERSATIONS.items():
            variables = own_variables(names, tools) | variables
            entry = {"template": path.name, "conversation": name}
            entry |= render(template, with_thinking(source, decoded(messages)), tools, variables)
            if joined(messages) != messages:
                entry["joined"] = render(template, joined(decoded(messages)), tools, variables)
            results.append(entry)
    conversations = {name: {"messages": m, "tools": t, "variables": v}
                     for name, (m, t, v) in CONVERSATIONS.items()}
    json.dump({"special": SPECIAL, "conversations": conversations, "results": results},
              sys.stdout, ensure_ascii=False)


main()
