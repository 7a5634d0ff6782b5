"""Compares which schemas Headroom and llguidance take.

    peer.py SCHEMAS OURS

SCHEMAS has a JSON object with name and schema in each line. OURS is what `build/schemas -out`
wrote. It fails if Headroom takes less than 90 % of the schemas that llguidance takes.
"""

import json
import sys

from llguidance import LLMatcher, LLTokenizer

ENOUGH = 0.9


def peer_takes(tokenizer, schema):
    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
    return not LLMatcher(tokenizer, grammar).is_error()


def main(schemas, ours):
    with open(ours, encoding="utf-8") as f:
        taken = {o["name"]: o["taken"] for o in json.load(f)}
    tokenizer = LLTokenizer("byte")
    peer, both = 0, 0
    with open(schemas, encoding="utf-8") as f:
        for line in f:
            case = json.loads(line)
            if peer_takes(tokenizer, case["schema"]):
                peer += 1
                both += taken[case["name"]]
                if not taken[case["name"]]:
                    print("llguidance takes", case["name"], "and Headroom does not")
    print(f"of {len(taken)} schemas llguidance takes {peer}, Headroom {sum(taken.values())}, "
          f"both {both} ({100 * both / max(peer, 1):.1f} % of llguidance's)")
    if both < ENOUGH * peer:
        sys.exit("that is too little")


main(*sys.argv[1:])
