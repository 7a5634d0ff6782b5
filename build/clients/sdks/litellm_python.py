"""LiteLLM, with its providers for OpenAI's, Anthropic's and Ollama's APIs."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
from checks import (cached, check, city, expect, model, question, rules, run, time_answer,
                    time_question, time_result, url)  # noqa: E402

providers = {"openai": url + "/v1", "hosted_vllm": url + "/v1", "anthropic": url,
             "ollama_chat": url}
tools = [{"type": "function", "function": {"name": "get_time", "parameters": city,
          "description": "Get the local time in a city."}}]


def user(text):
    return {"role": "user", "content": text}


def complete(messages, provider="openai", **more):
    return litellm.completion(model=f"{provider}/{model}", api_base=providers[provider],
                              api_key="any", messages=messages, temperature=0, num_retries=0,
                              **more)


@check(f"completion, whole and streamed ({', '.join(providers)})")
def _():
    for name in providers:
        whole = complete([user(question)], name).choices[0].message.content
        text = "".join(c.choices[0].delta.content or ""
                       for c in complete([user(question)], name, stream=True))
        expect(whole and whole == text, (name, whole, text))


@check("tool round trip (openai, hosted_vllm, anthropic)")
def _():
    for name in ("openai", "hosted_vllm", "anthropic"):
        messages = [user(time_question)]
        message = complete(messages, name, tools=tools).choices[0].message
        expect("Boston" in message.tool_calls[0].function.arguments, (name, message))
        messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id,
                               "content": time_result}]
        answer = complete(messages, name, tools=tools).choices[0].message.content
        expect(answer == time_answer, (name, answer))


@check("responses")
def _():
    answer = litellm.responses(model=f"openai/{model}", api_base=url + "/v1", api_key="any",
                               input=question, temperature=0)
    expect(answer.output_text, answer)


@check("knows a prompt that is too long")
def _():
    for name in ("openai", "hosted_vllm", "anthropic"):
        try:
            complete([user("a " * 40000)], name)
        except litellm.ContextWindowExceededError:
            continue
        raise AssertionError(name)


@check("a second turn from the cache")
def _():
    messages = [{"role": "system", "content": rules}, user(question)]
    messages += [complete(messages).choices[0].message, user("How long is it?")]
    usage = complete(messages).usage
    cached(usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens)


run()
