"""Compares Headroom with sentence-transformers on random small models: `make oracle-embeddings`, or
for a part `make oracle-embeddings ROWS=bert,qwen3`.

Each row of rows.py is an embedding model or a reranker. Its vectors are asked for by
/v1/embeddings, as arrays of numbers, as base64 and by token ids, its scores by /v1/rerank. Both
compute in float32. Sums have another order, which costs up to 2e-6; the tolerance is 1e-4.

    make oracle-embeddings ARGS=--golden    writes engine/testdata/vectors
"""

import argparse
import base64
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "models"))

import make
import server  # of build/oracle/models
import words
from rows import ROWS

ROOT = Path(__file__).resolve().parents[3]
TOLERANCE = 1e-4


def vectors(s, want):
    """The largest difference between the vectors in want and those of the server."""
    texts = words.TEXTS
    whole = s.post("/embeddings", {"input": texts})
    answers = [[d["embedding"] for d in whole["data"]]]
    coded = s.post("/embeddings", {"input": texts, "encoding_format": "base64"})
    answers.append([np.frombuffer(base64.b64decode(d["embedding"]), "<f4")
                    for d in coded["data"]])
    ids = s.post("/embeddings", {"input": want["ids"]})
    answers.append([d["embedding"] for d in ids["data"]])
    answers.append([s.post("/embeddings", {"input": text})["data"][0]["embedding"]
                    for text in texts])
    tokens = sum(map(len, want["ids"]))
    if whole["usage"]["prompt_tokens"] != tokens:
        raise ValueError(f"{whole['usage']} for {tokens} tokens")
    return float(np.max([np.abs(np.array(a) - np.array(want["vectors"])).max() for a in answers]))


def scores(s, want):
    answer = s.post("/rerank", {"query": make.QUERY, "documents": words.TEXTS})
    got = {r["index"]: r["relevance_score"] for r in answer["results"]}
    return float(np.max([abs(got[i] - x) for i, x in enumerate(want["scores"])]))


def run(name, headroom, folder):
    want = make.make(name, ROWS[name], folder)
    with server.Server(headroom, folder, 512) as s:
        return vectors(s, want) if "vectors" in want else scores(s, want)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--rows", default="", help="the rows to run, separated by commas; default: all")
    p.add_argument("--golden", action="store_true", help="write engine/testdata/vectors")
    p.add_argument("--headroom", default=str(ROOT / "bin/headroom"), help="the program to test")
    o = p.parse_args()
    names = o.rows.replace(",", " ").split() or sorted(ROWS)
    if unknown := [n for n in names if n not in ROWS]:
        sys.exit(f"oracle: no row for {', '.join(unknown)} in build/oracle/embeddings/rows.py")
    failed = []
    for name in names:
        if o.golden:
            make.golden(name, ROWS[name], ROOT / "engine/testdata/vectors")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                difference = run(name, o.headroom, str(Path(folder) / "model"))
            except (server.Failed, ValueError, KeyError) as err:
                difference = float("inf")
                print(f"  {name}: {err}")
        print(f"{name:24} largest difference {difference:.1e}", flush=True)
        if not difference <= TOLERANCE:
            failed.append(name)
    if failed:
        sys.exit(f"oracle: {len(failed)} failed: {', '.join(failed)}")
    if not o.golden:
        print(f"oracle: {len(names)} models agree with sentence-transformers")


if __name__ == "__main__":
    main()
