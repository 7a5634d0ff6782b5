"""The time of llguidance's masks for the texts that `schemas -speed` has written.

    python speed.py VOCABULARY CASES.json

VOCABULARY is a file of tiktoken or a tokenizer.json. It needs llguidance, and tiktoken or
tokenizers, from PyPI. Times are as in speed.go: compiling with the first mask, and each later mask
with the step before it.
"""

import ctypes
import json
import statistics
import sys
import time

import llguidance


def summary(times):
    s = sorted(times)
    at = lambda share: s[min(len(s) - 1, int(share * len(s)))]
    return (f"mean {statistics.mean(s):.0f} µs, median {at(0.5):.0f}, 95 % {at(0.95):.0f}, "
            f"99 % {at(0.99):.0f}, longest {s[-1]:.0f}")


def read(vocabulary):
    """Returns the tokenizer of a file, for llguidance and as a function of a text."""
    if vocabulary.endswith(".json"):
        import tokenizers
        encoding = tokenizers.Tokenizer.from_file(vocabulary)
        return (llguidance.LLTokenizer(open(vocabulary).read()),
                lambda text: encoding.encode(text, add_special_tokens=False).ids)
    import tiktoken.load
    from llguidance.tiktoken import lltokenizer_from_encoding
    ranks = tiktoken.load.load_tiktoken_bpe(vocabulary)
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
               r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    encoding = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks,
                                 special_tokens={"<|endoftext|>": len(ranks)})
    return (lltokenizer_from_encoding(encoding), encoding.encode_ordinary)


def main(vocabulary, cases):
    tokenizer, encode = read(vocabulary)
    first, steps, refused = [], [], 0
    mask = (ctypes.c_uint32 * ((tokenizer.vocab_size + 31) // 32))()
    for case in json.load(open(cases)):
        began = time.perf_counter()
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(
                json.dumps(case["schema"]), {"whitespace_flexible": False, "item_separator": ", ",
                                             "key_separator": ": "})
            matcher = llguidance.LLMatcher(tokenizer, grammar)
            if matcher.get_error():
                raise ValueError(matcher.get_error())
        except Exception:
            refused += 1
            continue
        for i, token in enumerate(encode(case["text"])):
            matcher.unsafe_compute_mask_ptr(ctypes.addressof(mask), ctypes.sizeof(mask))
            took = (time.perf_counter() - began) * 1e6
            (first if i == 0 else steps).append(took)
            began = time.perf_counter()
            if not matcher.consume_token(token):
                break
    print(f"{len(first)} schemas, {refused} more refused")
    print("compiling and the first mask:", summary(first))
    print("a later mask, with the step before it:", summary(steps))


main(*sys.argv[1:])
