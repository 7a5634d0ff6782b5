"""LlamaIndex: answers as objects of pydantic, by OpenAI's API and by Ollama's."""

from checks import check, expect, model, question, run, url
from forms import Order, order_question, right
from llama_index.core.prompts import PromptTemplate
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike

like = {"model": model, "api_base": url + "/v1", "api_key": "any", "is_chat_model": True,
        "temperature": 0, "max_tokens": 300, "max_retries": 0, "context_window": 32768}
apis = {
    "Chat": OpenAILike(**like),
    "calls": OpenAILike(**like, is_function_calling_model=True),
    "Ollama": Ollama(model=model, base_url=url, temperature=0, context_window=32768),
}


@check(f"completes and streams ({', '.join(apis)})")
def _():
    for name, llm in apis.items():
        whole = llm.complete(question).text
        streamed = [part.text for part in llm.stream_complete(question)][-1]
        expect(whole and whole == streamed, (name, whole, streamed))


@check("objects (Chat by response_format, calls by tool_choice, Ollama by format)")
def _():
    for name in ("calls", "Ollama"):
        order = apis[name].structured_predict(Order, PromptTemplate(order_question))
        expect(right(order), (name, order))
    answer = apis["Chat"].complete(order_question, response_format={
        "type": "json_schema", "json_schema": {"name": "order",
                                               "schema": Order.model_json_schema()}})
    expect(right(Order.model_validate_json(answer.text)), answer)


@check("objects of a stream (Ollama)")
def _():
    parts = list(apis["Ollama"].stream_structured_predict(Order, PromptTemplate(order_question)))
    expect(len(parts) > 2 and right(Order.model_validate(parts[-1].model_dump())), parts[-1:])


run()
