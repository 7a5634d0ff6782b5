"""A type that the Python clients ask for. The demo model knows nothing of it, so only a constrained
answer is one. It has no lists and no numbers: some SDKs take their bounds out of the schema, and
the model may write on for ever."""

from typing import Literal

from pydantic import BaseModel

order_question = "I would like four large blue shirts, please."


class Item(BaseModel):
    name: Literal["shirt", "hat", "sock"]
    size: Literal["small", "large"] | None


class Order(BaseModel):
    """An order of a shop."""

    colour: Literal["red", "blue"]
    count: Literal["one", "two", "four"]
    item: Item
    other: Item | None


def right(order):
    """Reports whether it is a valid Order."""
    members = order.model_dump()
    return Order.model_validate(members).model_dump() == members
