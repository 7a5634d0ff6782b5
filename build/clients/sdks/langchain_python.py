"""LangChain's chat models for OpenAI, Anthropic and Ollama."""

from checks import (cached, check, expect, model, question, rules, run, time_answer,
                    time_question, time_result, url)
from forms import Order, order_question, right
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI

chat = ChatOpenAI(model=model, base_url=url + "/v1", api_key="any", temperature=0,
                  stream_usage=True)
apis = {
    "Chat": chat,
    "Responses": ChatOpenAI(model=model, base_url=url + "/v1", api_key="any", temperature=0,
                            use_responses_api=True),
    "Messages": ChatAnthropic(model=model, base_url=url, api_key="any", temperature=0,
                              max_tokens=200),
    "Ollama": ChatOllama(model=model, base_url=url, temperature=0),
}


@tool
def get_time(city: str) -> str:
    """Get the local time in a city."""
    return time_result


def each(words):
    """Adds a check for each API."""

    def add(function):
        @check(f"{words} ({', '.join(apis)})")
        def _():
            for name, llm in apis.items():
                try:
                    function(llm)
                except Exception as e:
                    raise AssertionError(name) from e
        return function

    return add


@each("invoke and stream")
def _(llm):
    whole = llm.invoke(question)
    streamed = None
    for chunk in llm.stream(question):
        streamed = chunk if streamed is None else streamed + chunk
    expect(whole.text and whole.text == streamed.text, (whole, streamed))
    expect(streamed.usage_metadata["input_tokens"] > 0, streamed)


@each("tool round trip")
def _(llm):
    llm = llm.bind_tools([get_time])
    messages = [HumanMessage(time_question)]
    answer = llm.invoke(messages)
    call = answer.tool_calls[0]
    expect(call["args"] == {"city": "Boston"}, answer)
    messages += [answer, ToolMessage(time_result, tool_call_id=call["id"], name="get_time")]
    expect(llm.invoke(messages).text == time_answer, messages)


@each("with_structured_output")
def _(llm):
    order = llm.with_structured_output(Order).invoke(order_question)
    expect(right(order), order)


@check("several system messages")
def _():
    answer = chat.invoke([SystemMessage("Be brief."), SystemMessage("Be kind."),
                          HumanMessage(question)])
    expect(answer.text, answer)


@check("log-probabilities")
def _():
    answer = chat.bind(logprobs=True).invoke(question)
    expect(answer.response_metadata["logprobs"]["content"], answer)


@check("a second turn from the cache")
def _():
    messages = [SystemMessage(rules), HumanMessage(question)]
    messages += [chat.invoke(messages), HumanMessage("How long is it?")]
    usage = chat.invoke(messages).usage_metadata
    cached(usage["input_token_details"]["cache_read"], usage["input_tokens"])


run()
