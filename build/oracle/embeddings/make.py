"""Makes the model of a row, and what sentence-transformers computes with it."""

import json
import shutil
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder

import reference
import words

QUERY = "Which city is the capital of China?"


def make(name, row, folder):
    """Writes the model of a row to a folder and returns what it must compute: the tokens of each
    text, and its vector or, for a reranker, its score with QUERY."""
    torch.manual_seed(sum(map(ord, name)))
    folder = Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    model = row(str(folder / "body"))
    model.save(str(folder), create_model_card=False)
    shutil.rmtree(folder / "body")
    with torch.no_grad():
        if not isinstance(model, CrossEncoder):
            ids = [model.tokenizer(text)["input_ids"] for text in words.TEXTS]
            return {"ids": ids, "vectors": model.encode(words.TEXTS).tolist()}
        if name.startswith("qwen3"):
            return {"scores": reference.qwen3(model, QUERY, words.TEXTS)}
        pairs = [(QUERY, text) for text in words.TEXTS]
        return {"scores": model.predict(pairs).tolist()}


def golden(name, row, tests):
    """Writes a model with what it must compute for `make test`, which has no Python."""
    folder = Path(tests) / name
    expected = {"query": QUERY, "texts": words.TEXTS, **make(name, row, folder)}
    for unused in ("tokenizer_config.json", "sentence_bert_config.json", "README.md"):
        (folder / unused).unlink(missing_ok=True)
    if "vectors" in expected:
        expected["vectors"] = [[round(x, 7) for x in v] for v in expected["vectors"]]
    (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    print(folder, sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()), "bytes")
