"""Ollama's Python client."""

import ollama
from checks import (check, city, expect, model, question, rules, run, time_answer,
                    time_question, time_result, url)
from forms import Order, order_question, right

client = ollama.Client(host=url)
tools = [{"type": "function", "function": {"name": "get_time", "parameters": city,
          "description": "Get the local time in a city."}}]
greedy = {"temperature": 0}


def chat(messages, **more):
    return client.chat(model=model, messages=messages, options=greedy, **more)


def user(text):
    return {"role": "user", "content": text}


@check("lists and shows models")
def _():
    expect(model + ":latest" in [m.model for m in client.list().models], client.list())
    shown = client.show(model)
    expect("tools" in shown.capabilities, shown)
    chat([user("hi")])
    expect(client.ps().models[0].model == model + ":latest", client.ps())


@check("chat, whole and streamed")
def _():
    whole = chat([user(question)])
    parts = list(chat([user(question)], stream=True))
    text = "".join(p.message.content or "" for p in parts)
    expect(text and text == whole.message.content, (text, whole))
    expect(parts[-1].done and parts[-1].eval_count == whole.eval_count, parts[-1])


@check("generate")
def _():
    answer = client.generate(model=model, prompt=question, options=greedy)
    expect(answer.response and answer.done_reason == "stop", answer)


@check("JSON of a schema")
def _():
    answer = chat([user(order_question)], format=Order.model_json_schema())
    expect(right(Order.model_validate_json(answer.message.content)), answer)


@check("tool round trip")
def _():
    messages = [user(time_question)]
    message = chat(messages, tools=tools).message
    expect(message.tool_calls[0].function.arguments == {"city": "Boston"}, message)
    messages += [message, {"role": "tool", "tool_name": "get_time", "content": time_result}]
    expect(chat(messages, tools=tools).message.content == time_answer, messages)


@check("a second turn from the cache")
def _():
    messages = [{"role": "system", "content": rules}, user(question)]
    messages += [chat(messages).message, user("How long is it?")]
    last = chat(messages)
    # Ollama's API does not say what is cached. build/clients reads it in the server's log.
    expect(last.prompt_eval_count > 1000, last)


@check("understands errors")
def _():
    for ask in (lambda: client.chat(model="llama3.2", messages=[user("hi")]),
                lambda: client.embed(model=model, input="hi")):
        try:
            ask()
        except ollama.ResponseError as e:
            expect(400 <= e.status_code < 500 and e.error, e)
        else:
            raise AssertionError("no ResponseError")


run()
