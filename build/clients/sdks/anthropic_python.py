"""Anthropic's Python SDK: Messages."""

import anthropic
from checks import (cached, check, city, expect, model, question, rules, run, time_answer,
                    time_question, time_result, url)
from forms import Order, order_question, right

client = anthropic.Anthropic(base_url=url, api_key="any", max_retries=0)
tools = [{"name": "get_time", "description": "Get the local time in a city.",
          "input_schema": city}]
greedy = {"temperature": 0}  # the SDK has no parameter for it


def create(messages, **more):
    return client.messages.create(model=model, messages=messages, max_tokens=200,
                                  extra_body=greedy, **more)


def user(text):
    return {"role": "user", "content": text}


@check("lists models")
def _():
    expect(model in [m.id for m in client.models.list()], client.models.list())
    expect(client.models.retrieve(model).display_name, client.models.retrieve(model))


@check("messages, whole and streamed")
def _():
    whole = create([user(question)])
    with client.messages.stream(model=model, messages=[user(question)], max_tokens=200,
                                extra_body=greedy) as stream:
        streamed = stream.get_final_message()
    expect(whole.content[0].text and whole.content[0].text == streamed.content[0].text,
           (whole, streamed))
    expect(whole.stop_reason == "end_turn", whole)
    expect(whole._request_id.startswith("req_"), whole._request_id)


@check("parsed answers, and a required call")
def _():
    answer = client.messages.parse(model=model, messages=[user(order_question)], max_tokens=300,
                                   output_format=Order)
    expect(right(answer.parsed_output), answer)
    answer = create([user(order_question)], tools=[{"name": "order", "strict": True,
                    "input_schema": Order.model_json_schema()}],
                    tool_choice={"type": "tool", "name": "order"})
    expect(right(Order.model_validate(answer.content[-1].input)), answer)


@check("thinking")
def _():
    answer = create([user("Sort: pear, apple, fig")],
                    thinking={"type": "enabled", "budget_tokens": 1024})
    expect([b.type for b in answer.content] == ["thinking", "text"], answer)
    again = create([user("Sort: pear, apple, fig"), {"role": "assistant",
                    "content": answer.content}, user("Thanks")])
    expect(again.content, again)


@check("tool round trip")
def _():
    messages = [user(time_question)]
    with client.messages.stream(model=model, messages=messages, tools=tools, max_tokens=200,
                                extra_body=greedy) as stream:
        first = stream.get_final_message()
    expect(first.stop_reason == "tool_use", first)
    call = next(b for b in first.content if b.type == "tool_use")
    expect(call.input == {"city": "Boston"}, call)
    messages += [{"role": "assistant", "content": first.content}, user([
        {"type": "tool_result", "tool_use_id": call.id, "content": time_result}])]
    expect(create(messages, tools=tools).content[0].text == time_answer, messages)


@check("counts tokens")
def _():
    counted = client.messages.count_tokens(model=model, messages=[user(question)])
    usage = create([user(question)]).usage
    expect(counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens, counted)


@check("a second turn from the cache")
def _():
    system = [{"type": "text", "text": rules, "cache_control": {"type": "ephemeral"}}]
    first = create([user(question)], system=system)
    usage = create([user(question), {"role": "assistant", "content": first.content},
                    user("How long is it?")], system=system).usage
    cached(usage.cache_read_input_tokens, usage.input_tokens + usage.cache_read_input_tokens)


@check("understands errors")
def _():
    try:
        client.messages.create(model="claude", messages=[user("hi")], max_tokens=1)
    except anthropic.NotFoundError as e:
        expect(e.body["error"]["type"] == "not_found_error", e)
    else:
        raise AssertionError("no NotFoundError")
    try:
        create([user("a " * 40000)])
    except anthropic.BadRequestError as e:
        expect("prompt is too long" in str(e), e)
    else:
        raise AssertionError("no BadRequestError")


run()
