"""Writes demo_prompts.json: conversations for the bundled model in OpenAI form,
each with the prompt that Jinja2 makes of it.

Usage: demo_prompts.py demo_cases.json chat_template.jinja > demo_prompts.json

demo_cases.json holds the conversations the model was judged with, as lists of
[role, content, reasoning, [[function, arguments], ...]], and the prompt each was
given. The two must agree with what the template renders, or the script stops.
"""
import json
import sys

import jinja2

cases, template = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)


def refuse(message):
    raise jinja2.TemplateError(message)


env.globals["raise_exception"] = refuse
template = env.from_string(template)


def openai(message, arguments_as_text):
    role, content, calls = message[0], message[1], message[3] if len(message) > 3 else []
    out = {"role": role, "content": content}
    if calls:
        out["tool_calls"] = [
            {"id": f"call_{i}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(a) if arguments_as_text else a}}
            for i, (name, a) in enumerate(calls)]
    return out


out = []
for case in cases:
    if not case.get("messages"):
        continue
    messages, tools = case["messages"], case.get("tools")
    for thinking in (False, True):
        prompt = template.render(messages=[openai(m, False) for m in messages], tools=tools,
                                 add_generation_prompt=True, enable_thinking=thinking)
        if prompt == case["prompt"]:
            break
    else:
        sys.exit("the template does not render a case's prompt")
    entry = {"messages": [openai(m, True) for m in messages], "thinking": thinking, "prompt": prompt}
    if tools:
        entry["tools"] = tools
    out.append(entry)
json.dump(out, sys.stdout, ensure_ascii=False, indent=0)
print()
