"""OpenAI's Python SDK: Chat Completions, Completions and Responses."""

import json

import openai
from checks import (cached, check, city, expect, model, question, rules, run, time_answer,
                    time_question, time_result, url)
from forms import Order, order_question, right

client = openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0)
user = [{"role": "user", "content": question}]
tools = [{"type": "function", "function": {"name": "get_time", "parameters": city,
          "description": "Get the local time in a city."}}]


def chat(messages, **more):
    return client.chat.completions.create(model=model, messages=messages, temperature=0, **more)


def respond(**more):
    return client.responses.create(model=model, temperature=0, **more)


@check("lists models")
def _():
    expect(model in [m.id for m in client.models.list()], client.models.list())
    expect(client.models.retrieve(model).id == model, client.models.retrieve(model))


@check("chat, whole and streamed")
def _():
    whole = chat(user)
    text, usage = "", None
    for chunk in chat(user, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        text += "".join(c.delta.content or "" for c in chunk.choices)
    expect(text and text == whole.choices[0].message.content, (text, whole))
    expect(usage.total_tokens == whole.usage.total_tokens, usage)
    expect(whole._request_id.startswith("req_"), whole._request_id)


@check("tool round trip in chat")
def _():
    messages = [{"role": "user", "content": time_question}]
    with client.chat.completions.stream(model=model, messages=messages, tools=tools,
                                        temperature=0) as stream:
        message = stream.get_final_completion().choices[0].message
    call = message.tool_calls[0]
    expect(json.loads(call.function.arguments) == {"city": "Boston"}, call)
    messages += [message.to_dict(), {"role": "tool", "tool_call_id": call.id,
                                     "content": time_result}]
    expect(chat(messages, tools=tools).choices[0].message.content == time_answer, messages)


@check("several answers, probabilities and seeds")
def _():
    def ask():
        return client.chat.completions.create(model=model, messages=user, n=2, seed=1,
            logprobs=True, top_logprobs=2, max_completion_tokens=12)
    first, second = ask(), ask()
    expect(len(first.choices) == 2, first)
    expect([c.message.content for c in first.choices] ==
           [c.message.content for c in second.choices], (first, second))
    expect(all(len(t.top_logprobs) == 2 for t in first.choices[0].logprobs.content), first)


@check("completions with echo and log-probabilities")
def _():
    answer = client.completions.create(model=model, prompt="The KV cache", max_tokens=4,
                                       temperature=0, echo=True, logprobs=1)
    expect(answer.choices[0].text.startswith("The KV cache"), answer)
    probabilities = answer.choices[0].logprobs.token_logprobs
    expect(probabilities[0] is None and all(p <= 0 for p in probabilities[1:]), answer)


@check("responses, whole and streamed")
def _():
    whole = respond(input=question)
    with client.responses.stream(model=model, input=question, temperature=0) as stream:
        streamed = stream.get_final_response()
    expect(whole.output_text and whole.output_text == streamed.output_text, (whole, streamed))


@check("tool round trip in responses")
def _():
    flat = [{"type": "function", "name": "get_time", "parameters": city, "strict": False,
             "description": "Get the local time in a city."}]
    first = respond(input=time_question, tools=flat)
    call = next(item for item in first.output if item.type == "function_call")
    expect(json.loads(call.arguments) == {"city": "Boston"}, call)
    answer = respond(previous_response_id=first.id, tools=flat, input=[
        {"type": "function_call_output", "call_id": call.call_id, "output": time_result}])
    expect(answer.output_text == time_answer, answer)


@check("parsed answers in both, and parsed calls")
def _():
    messages = [{"role": "user", "content": order_question}]
    answer = client.chat.completions.parse(model=model, messages=messages, max_tokens=300,
                                           response_format=Order)
    expect(right(answer.choices[0].message.parsed), answer)
    answer = client.chat.completions.parse(
        model=model, messages=messages, max_tokens=300, tool_choice="required",
        tools=[openai.pydantic_function_tool(Order)])
    expect(right(answer.choices[0].message.tool_calls[0].function.parsed_arguments), answer)
    answer = client.responses.parse(model=model, input=order_question, max_output_tokens=300,
                                    text_format=Order)
    expect(right(answer.output_parsed), answer)


@check("decisions, twice the same")
def _():
    def ask(**more):
        return client.decisions.create(model="default", input=[
            {"role": "system", "content": "You read tickets."},
            {"role": "user", "content": [
                {"type": "input_text", "text": "I was charged twice!"},
                {"type": "input_json", "data": {"order": 4411, "charges": [12, 12]}}]},
            {"type": "function_call", "call_id": "1", "name": "find",
             "arguments": '{"order":4411}'},
            {"type": "function_call_output", "call_id": "1", "output": "two charges"}],
            questions=[
                {"type": "predicate", "name": "refund", "instructions": "They want money back."},
                {"type": "choice", "instructions": "Which team?", "choices": [
                    {"value": "billing"}, {"value": True, "description": "any"}]},
                {"type": "score", "instructions": "How urgent?", "levels": [
                    {"label": "low"}, {"label": "middle"}, {"label": "high"}]},
                {"type": "choice", "instructions": "Which?", "choices": [
                    {"value": f"option {i}"} for i in range(255)]}], **more)
    first, again = ask(), ask(prompt_cache_key="k", safety_identifier="u")
    expect(first.answers == again.answers, (first, again))
    predicate, choice, score, many = first.answers
    expect(predicate.name == "refund" and 0 <= predicate.probability <= 1, predicate)
    expect(choice.choice in ("billing", True) and choice.name is None, choice)
    expect([p.value for p in score.probabilities] == [0, 1, 2] and 0 <= score.score <= 2, score)
    expect(all(abs(sum(p.probability for p in a.probabilities) - 1) < 1e-9
               for a in (choice, score, many)) and len(many.probabilities) == 255, many)
    expect(again.usage.input_tokens_details.cached_tokens > 0, again)


@check("a second turn from the cache, in both")
def _():
    messages = [{"role": "system", "content": rules}] + user
    first = chat(messages)
    messages += [{"role": "assistant", "content": first.choices[0].message.content},
                 {"role": "user", "content": "How long is it?"}]
    usage = chat(messages).usage
    cached(usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens)
    first = respond(instructions=rules, input=question)
    usage = respond(instructions=rules, input="How long is it?",
                    previous_response_id=first.id).usage
    cached(usage.input_tokens_details.cached_tokens, usage.input_tokens)


@check("understands errors")
def _():
    for exception, ask in (
            (openai.NotFoundError, lambda: client.chat.completions.create(
                model="gpt-4", messages=user)),
            (openai.BadRequestError, lambda: chat(user, extra_body={"stop_regex": "a"})),
            (openai.BadRequestError, lambda: chat([{"role": "user", "content": "a " * 40000}]))):
        try:
            ask()
        except exception as e:
            expect(e.code in ("model_not_found", "unsupported_parameter",
                              "context_length_exceeded"), e)
        else:
            raise AssertionError(f"no {exception.__name__}")


run()
