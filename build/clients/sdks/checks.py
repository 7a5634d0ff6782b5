"""What the Python clients share: the checks, and questions that the demo model answers.

A check is a function. If it returns, the client has done what its words say, and a line
"did: WORDS" tells build/clients so.
"""

import os
import sys
import time
import traceback

url = os.environ["HEADROOM_URL"]  # without a path
model = "headroom-demo"
question = "What is a KV cache?"
time_question = "Tell me the time in Boston."
time_result = '{"time": "01:54"}'
time_answer = "It is 01:54 in Boston."
city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

# A long message, of which a second turn has at least 95 % in the cache.
rules = "\n".join(f"Rule {i}: a file has at most {100 + i} lines, and a test." for i in range(100))

_checks = []


def check(words):
    """Adds a check, with the words of the table."""

    def add(function):
        _checks.append((words, function))
        return function

    return add


def expect(condition, got):
    """Fails, showing what was got, unless the condition holds."""
    if not condition:
        raise AssertionError(f"got {got!r}")


def cached(tokens, of):
    """Fails unless at least 95 % of the tokens of a prompt were cached."""
    expect(tokens >= 0.95 * of and of > 1000, f"{tokens} cached tokens of {of}")


def run():
    """Runs all checks and ends the program."""
    failed = 0
    for words, function in _checks:
        begin = time.monotonic()
        try:
            function()
        except Exception:
            failed += 1
            print(f"FAIL {words}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"{words}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
            print(f"did: {words}", flush=True)
    sys.exit(1 if failed else 0)
