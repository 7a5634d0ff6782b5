"""Writes tiny models with reference outputs for `make test`, which has no Python.

    make oracle ARGS="--golden phi3"             the first variant of the row, as testdata/tiny/phi3
    make oracle ARGS="--golden phi3:1:mxfp4"     another variant and packing, as tiny/phi3_mxfp4

The tests of engine/models and engine read every folder of engine/models/testdata/tiny. They need
320 tokens and 2,048 positions, so the golden has these instead of the row's.
"""

import json
import shutil
from pathlib import Path

import mlx.core as mx

import weights

TINY = Path(__file__).resolve().parents[3] / "engine/models/testdata/tiny"
LENGTHS = (1, 5, 40, 150, 300)
GREEDY = 24
MOST_BYTES = 200_000  # of a committed model


def write(what, table):
    """Writes the golden TYPE, TYPE:VARIANT or TYPE:VARIANT:PACKING."""
    name, *choice = what.split(":")
    if name not in table:
        raise SystemExit(f"oracle: no row for {name} in build/oracle/models/table.py")
    variant, packing = (choice + ["0", "affine"][len(choice):])[:2]
    row = table[name]
    if variant not in map(str, range(len(row.variants))):
        raise SystemExit(f"oracle: {name} has the variants 0 to {len(row.variants) - 1}, "
                         f"not {variant}")
    folder = TINY / "_".join([name, *choice[1:]])
    chosen = {**row.variants[int(variant)], "vocab_size": 320, "max_position_embeddings": 2048}
    shutil.rmtree(folder, ignore_errors=True)
    model = weights.make(name, row, chosen, packing, folder, seed=what)
    (folder / "tokenizer.json").unlink()  # the tests have one
    expected = [answer(model, weights.tokens(n, 320, seed=n)) for n in LENGTHS]
    (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}\n')
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder}: {size} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"oracle: {folder} has more than {MOST_BYTES} bytes: choose a smaller one")


def answer(model, ids):
    """The logits after a prompt, and its greedy continuation."""
    each = weights.logits(model, ids)
    best, gaps = [], []
    row, tokens = each[-1], list(ids)
    for _ in range(GREEDY):
        second, first = mx.sort(row)[-2:].tolist()
        gaps.append(first - second)
        best.append(mx.argmax(row).item())
        tokens.append(best[-1])
        row = weights.logits(model, tokens)[-1]
    return {"ids": ids, "last_logits": [round(x, 5) for x in each[-1].tolist()],
            "argmax_each": mx.argmax(each, axis=-1).tolist(), "greedy_ids": best,
            "smallest_gap": round(min(gaps), 5)}
