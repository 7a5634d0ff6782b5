"""Instructor: answers as objects of pydantic, in its modes for OpenAI's API."""

import instructor
import openai
from checks import check, expect, model, run, url
from forms import Order, order_question, right

client = openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0)
# Mode.JSON sends the schema in the prompt alone.
modes = [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT,
         instructor.Mode.JSON_SCHEMA]


@check(f"objects ({', '.join(mode.name for mode in modes)})")
def _():
    for mode in modes:
        order = instructor.from_openai(client, mode=mode).chat.completions.create(
            model=model, response_model=Order, max_retries=0, max_tokens=300,
            messages=[{"role": "user", "content": order_question}])
        expect(right(order), (mode, order))


@check("partial objects of a stream")
def _():
    parts = list(instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
                 .chat.completions.create_partial(
                     model=model, response_model=Order, max_retries=0, max_tokens=300,
                     messages=[{"role": "user", "content": order_question}]))
    expect(len(parts) > 2 and right(Order.model_validate(parts[-1].model_dump())), parts[-1:])


run()
