"""Compares Headroom with mlx-lm on random small models: `make oracle`, or for a part
`make oracle TYPES=qwen3,llama`.

For every model_type of engine/models, table.py has a row with at least two configurations. Each is
made in several packings by mlx-lm's own model class, with random weights, and saved as mlx-lm saves
it. mlx-lm and `headroom serve` get the same token ids, the server by /v1/completions. The
log-probabilities of every position must agree, also of the last: that of the prompt's next token
and those of the 20 most likely tokens.

Both compute in float32: mlx-lm after set_dtype, Headroom with --float32 and --kv-format f32. Sums
have another order, which costs up to 2e-4; the tolerance is 5e-4. A wrong scale, a swapped order or
a window off by one costs 1e-1 and more (`make oracle ARGS=--mutants` shows it).

Some random models with GatedDeltaNet enlarge rounding errors: mlx-lm differs from itself by up to
7e-3 if each weight changes by about one part in 16 million. For a model that exceeds the tolerance,
this is measured, and twice as much is allowed.

Files: table.py has the rows and says how to add one, weights.py makes the models, server.py runs
Headroom, golden.py writes engine/models/testdata/tiny, blocks.py testdata/mtp, assistants.py
testdata/assistant, adapters.py compares adapters, mutants.py shows that faults are found.
originals.py and packings.py compare with transformers.
"""

import argparse
import math
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import blocks
import golden
import mutants
import server
import weights
from table import TYPES

ROOT = Path(__file__).resolve().parents[3]
PROMPT_TOKENS = 150


def registered():
    """The model_types in the registry of engine/models."""
    text = (ROOT / "engine/models/models.go").read_text()
    table = text[text.index("var registry ="):]
    return set(re.findall(r'^\t"(\w+)":', table[:table.index("\n}")], re.M))


def compare(reply, ids, want):
    """Returns the largest difference between the log-probabilities of the server's reply and those
    of mlx-lm [len(ids), vocabulary], and the position where it is."""
    answered = reply["choices"][0]["logprobs"]
    worst, at = 0.0, 0
    given, tops = answered["token_logprobs"], answered["top_logprobs"]
    if len(given) != len(ids) + 1 or given[0] is not None:
        raise ValueError(f"{len(given)} log-probabilities for {len(ids)} tokens and one more")
    for i in range(1, len(given)):
        row = want[i - 1]
        pairs = [(weights.token_id(text), value) for text, value in tops[i].items()]
        if i < len(ids):
            pairs.append((ids[i], given[i]))
        if len(pairs) < 20:
            raise ValueError(f"{len(pairs)} log-probabilities at position {i}")
        for token, value in pairs:
            difference = abs(value - row[token])
            if not math.isfinite(difference):
                return math.inf, i - 1
            if difference > worst:
                worst, at = difference, i - 1
    return worst, at


def check(row, model, ids, folder, headroom):
    """Runs one model. Returns the largest difference and its position."""
    want = weights.logprobs(model, ids)
    with server.Server(headroom, folder, context=len(ids) + 2) as s:
        reply = s.complete({"prompt": ids, "echo": True, "logprobs": 20, "max_tokens": 1,
                            "temperature": 0})
    return compare(reply, ids, want)


def run(types, headroom, keep, verbose=False, packings=None, report=print):
    """Compares all variants and packings of the given rows. Returns the titles of failures and the
    largest difference of each: infinity if Headroom computed nothing."""
    failed = {}
    for name in types:
        row, begun, worst, count = TYPES[name], time.time(), 0.0, 0
        for number, variant in enumerate(row.variants):
            for packing in packings or row.packings:
                title = f"{name} {number} {packing}"
                folder = Path(keep) / title.replace(" ", "-")
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    model = weights.make(name, row, variant, packing, folder, seed=title)
                    vocabulary = {**row.base, **variant}["vocab_size"]
                    ids = weights.tokens(PROMPT_TOKENS, vocabulary)
                    difference, at = check(row, model, ids, folder, headroom)
                except (server.Failed, ValueError) as err:
                    difference, at = math.inf, 0
                    report(f"  {title}: {err}")
                count += 1
                if verbose:
                    report(f"  {title}: {difference:.1e}")
                worst, tolerance = max(worst, difference), row.tolerance
                if tolerance < difference < math.inf:
                    tolerance = max(tolerance, 2 * weights.own_difference(model, ids))
                    report(f"  {title}: {difference:.1e}, of {tolerance:.1e} that are allowed")
                if not difference <= tolerance:
                    failed[title] = difference
                    report(f"  {title}: FAILED, the log-probabilities differ by "
                           f"{difference:.3g} at position {at}, the tolerance is {tolerance:.3g}")
        report(f"{name:20} {count:3} models, largest difference {worst:.1e}, "
               f"{time.time() - begun:.1f} s")
    return failed


def compare_mutants(types, folder):
    """Compares mutants of Headroom with mlx-lm, in the packing of each. Each must differ."""
    def compared(name, program, packing):
        failed = run([name], program, folder, packings=(packing,), report=lambda _: None)
        if not failed:
            return "agrees"
        return "differs" if any(x != math.inf for x in failed.values()) else "refuses"

    missed = mutants.run(types, folder, compared)
    if missed:
        sys.exit(f"oracle: {len(missed)} faults were not found: {'; '.join(missed)}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--types", default="", help="the rows to run, separated by commas; default: all")
    p.add_argument("--mutants", action="store_true", help="show that faults are found")
    p.add_argument("--originals", action="store_true",
                   help="compare originals with transformers; see originals.py")
    p.add_argument("--packings", action="store_true",
                   help="compare AWQ, GPTQ and compressed-tensors with transformers; see "
                        "packings.py")
    p.add_argument("--convert", action="store_true",
                   help="compare headroom convert with mlx-lm; see conversions.py")
    p.add_argument("--adapters", action="store_true",
                   help="compare adapters with mlx-lm; see adapters.py")
    p.add_argument("--golden-adapters", action="store_true",
                   help="write engine/testdata/adapters; see adapters.py")
    p.add_argument("--golden", default="", metavar="TYPE",
                   help="write engine/models/testdata/tiny/TYPE; see golden.py")
    p.add_argument("--blocks", action="store_true",
                   help="write the blocks that draft of engine/models/testdata/mtp; see blocks.py")
    p.add_argument("--headroom", default=str(ROOT / "bin/headroom"), help="the program to test")
    p.add_argument("--verbose", action="store_true", help="print a line for each model")
    p.add_argument("--keep", default="", help="folder that keeps the models")
    o = p.parse_args()
    types = [t for t in o.types.replace(",", " ").split() if t] or sorted(TYPES)
    if unknown := [t for t in types if t not in TYPES]:
        sys.exit(f"oracle: no row for {', '.join(unknown)} in build/oracle/models/table.py")
    if o.blocks:
        blocks.write()
        return
    if o.golden_adapters:
        import adapters
        adapters.write_goldens()
        return
    if o.golden:
        golden.write(o.golden, TYPES)
        return
    with tempfile.TemporaryDirectory() as folder:
        if o.mutants:
            compare_mutants(types, folder)
            return
        if o.originals:
            import originals  # needs PyTorch
            failed = originals.run(types, TYPES, o.headroom, folder, compare, PROMPT_TOKENS)
            sys.exit(f"oracle: failed: {', '.join(failed)}" if failed else 0)
        if o.packings:
            import packings  # needs PyTorch
            chosen = types if o.types else packings.TYPES
            failed = packings.run(chosen, TYPES, o.headroom, folder, compare, PROMPT_TOKENS)
            sys.exit(f"oracle: failed: {', '.join(failed)}" if failed else 0)
        if o.convert:
            import conversions  # needs a C++ compiler
            failed = conversions.compare(types, TYPES, o.headroom, folder, not o.types)
            sys.exit(f"oracle: failed: {', '.join(failed)}" if failed else 0)
        if o.adapters:
            import adapters
            failed = adapters.run(types, TYPES, o.headroom, folder, compare, PROMPT_TOKENS)
            sys.exit(f"oracle: failed: {', '.join(failed)}" if failed else 0)
        failed = list(run(types, o.headroom, o.keep or folder, o.verbose))
    if not o.types:
        for name in sorted(registered() ^ set(TYPES)):
            failed.append(name)
            print(f"{name}: engine/models/models.go and build/oracle/models/table.py do not agree; "
                  "every registered model_type needs a row")
    if failed:
        sys.exit(f"oracle: {len(failed)} failed: {', '.join(failed)}")
    print(f"oracle: {len(types)} architectures agree with mlx-lm")


if __name__ == "__main__":
    main()
