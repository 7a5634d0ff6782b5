"""TypeSafe's client for Python: decisions of System One."""

from checks import check, expect, run, url
from typesafe_sdk import Choice, Noul, Score, TypeSafeClient

client = TypeSafeClient(api_key="none-needed", base_url=url)


@check("decisions of System One, twice the same")
def _():
    def ask():
        return client.system_one(
            model="default",
            state={"ticket": "I was charged twice!"},
            questions={
                "refund": Noul(instructions="They want money back."),
                "team": Choice(criteria={"billing": "charges", "technical": None}),
                "urgency": Score(instructions="How urgent?", criteria=["low", {"level": "high"}]),
            })
    first, second = ask(), ask()
    expect(0 <= first.nouls["refund"].noul <= 1, first)
    expect(first.choices["team"].choice in ("billing", "technical"), first)
    expect(0 <= first.scores["urgency"].score <= 1, first)
    expect(first.scores["urgency"].legend == {0: "low", 1: {"level": "high"}}, first)
    expect((first.nouls, first.choices, first.scores) ==
           (second.nouls, second.choices, second.scores), (first, second))


run()
