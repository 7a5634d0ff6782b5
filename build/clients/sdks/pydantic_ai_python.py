"""pydantic-ai, with its models for OpenAI's two APIs and Anthropic's."""

from checks import (cached, check, expect, model, question, rules, run, time_answer,
                    time_question, time_result, url)
from forms import Order, order_question, right
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=url + "/v1", api_key="any")
models = {
    "Chat": OpenAIChatModel(model, provider=provider),
    "Responses": OpenAIResponsesModel(model, provider=provider),
    "Messages": AnthropicModel(model, provider=AnthropicProvider(base_url=url, api_key="any"),
                               profile=ModelProfile(supports_json_schema_output=True)),
}
greedy = {"temperature": 0, "max_tokens": 200}


def agent(llm, **more):
    return Agent(llm, model_settings=greedy, retries=0, **more)


@check(f"runs and streams ({', '.join(models)})")
def _():
    for name, llm in models.items():
        whole = agent(llm).run_sync(question).output
        streamed = agent(llm).run_stream_sync(question).get_output()
        expect(whole and whole == streamed, (name, whole, streamed))


@check(f"tool round trip ({', '.join(models)})")
def _():
    for name, llm in models.items():
        a = agent(llm)

        @a.tool_plain(description="Get the local time in a city.")
        def get_time(city: str) -> str:
            expect(city == "Boston", city)
            return time_result

        output = a.run_sync(time_question).output
        expect(output == time_answer, (name, output))


@check(f"objects by calls and by the form of the answer ({', '.join(models)})")
def _():
    for name, llm in models.items():
        for kind in (ToolOutput, NativeOutput):
            output = agent(llm, output_type=kind(Order)).run_sync(order_question).output
            expect(right(output), (name, kind, output))


@check("instructions and a system prompt")
def _():
    a = agent(models["Chat"], system_prompt="Be brief.", instructions="Be kind.")
    expect(a.run_sync(question).output, "nothing")


@check("a second turn from the cache")
def _():
    for name, llm in models.items():
        a = agent(llm, instructions=rules)
        first = a.run_sync(question)
        usage = a.run_sync("How long is it?", message_history=first.all_messages()).usage
        cached(usage.cache_read_tokens, usage.input_tokens)


run()
