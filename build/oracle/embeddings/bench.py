"""Measures how fast Headroom and sentence-transformers embed 1,000 short texts on this machine's
CPU: `make bench-embeddings`, or for a part `make bench-embeddings SHAPES=bge-small`.

Both get the same model, with random weights in the shapes of a real one, and the same texts of
about 20 tokens, tokenizing included. They take turns, each with the same number of threads, and the
best of the rounds counts. Headroom answers over HTTP, by /v1/embeddings in requests of 250 texts;
sentence-transformers runs in this process, with the batch size that suits it best of a few.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers as hf
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

sys.path.append(str(Path(__file__).resolve().parents[1] / "models"))

import server  # of build/oracle/models
import rows
import words

ROOT = Path(__file__).resolve().parents[3]
TEXTS = 1000


def bert(hidden, layers, heads):
    def make(folder):
        t = words.word_piece()
        c = hf.BertConfig(vocab_size=30522, hidden_size=hidden, intermediate_size=4 * hidden,
                          num_hidden_layers=layers, num_attention_heads=heads)
        return hf.BertModel(c), t, "cls"
    return make


def qwen3(folder):
    t = words.byte_level(["<|endoftext|>"], end="<|endoftext|>")
    c = hf.Qwen3Config(vocab_size=151936, hidden_size=1024, intermediate_size=3072,
                       num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
                       head_dim=128, max_position_embeddings=32768, rope_theta=1e6)
    return hf.Qwen3Model(c).bfloat16(), t, "lasttoken"


SHAPES = {"bge-small": bert(384, 12, 12), "bert-base": bert(768, 12, 12), "qwen3-0.6b": qwen3}


def make(name, folder):
    torch.manual_seed(1)
    model, tokenizer, pooling = SHAPES[name](folder)
    body = Path(folder) / "body"
    model.eval().save_pretrained(body)
    tokenizer.save_pretrained(body)
    rows.sentences(str(body), pooling, Normalize()).save(folder, create_model_card=False)


def texts(model):
    """Texts of 15 to 25 tokens."""
    random.seed(1)
    pool = " ".join(words.TEXTS[1:4]).split()
    list_ = []
    while len(list_) < TEXTS:
        want, text = random.randint(15, 25), ""
        while len(model.tokenizer(text)["input_ids"]) < want:
            text += " " + random.choice(pool)
        list_.append(text.strip())
    return list_


def reference(model, all_texts, batch):
    begun = time.perf_counter()
    vectors = model.encode(all_texts, batch_size=batch, show_progress_bar=False)
    return time.perf_counter() - begun, vectors


def headroom(s, all_texts, size=250):
    begun = time.perf_counter()
    vectors = []
    for i in range(0, len(all_texts), size):
        answer = s.post("/embeddings", {"input": all_texts[i:i + size]})
        vectors += [d["embedding"] for d in answer["data"]]
    return time.perf_counter() - begun, np.array(vectors)


def measure(name, program, rounds, float32):
    with tempfile.TemporaryDirectory() as folder:
        make(name, folder)
        options = {"dtype": torch.float32} if float32 else {}
        model = SentenceTransformer(folder, device="cpu", model_kwargs=options)
        all_texts = texts(model)
        tokens = sum(map(len, model.tokenizer(all_texts)["input_ids"]))
        trial = {b: reference(model, all_texts[:200], b)[0] for b in (16, 32, 64, 128)}
        batch = min(trial, key=trial.get)
        ours, theirs, difference = [], [], 0.0
        with server.Server(program, folder, 512) as s:
            headroom(s, all_texts[:50])
            for _ in range(rounds):
                took, want = reference(model, all_texts, batch)
                theirs.append(took)
                took, got = headroom(s, all_texts)
                ours.append(took)
                difference = max(difference, float(np.abs(got - want).max()))
        a, b = min(ours), min(theirs)
        print(f"{name:12} {tokens} tokens: Headroom {a:.2f} s ({TEXTS / a:.0f} texts/s), "
              f"sentence-transformers {b:.2f} s ({TEXTS / b:.0f} texts/s, batches of {batch}), "
              f"ratio {b / a:.2f}, largest difference {difference:.1e}", flush=True)
        print("  rounds: " + ", ".join(f"{x:.2f}/{y:.2f}" for x, y in zip(ours, theirs)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--shapes", default="")
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--float32", action="store_true",
                   help="sentence-transformers computes in float32, as Headroom does, whatever "
                        "type the weights have")
    p.add_argument("--headroom", default=str(ROOT / "bin/headroom"))
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    print(f"torch {torch.__version__}, {o.threads} threads each; seconds of the best round")
    for name in o.shapes.replace(",", " ").split() or SHAPES:
        measure(name, o.headroom, o.rounds, o.float32)


if __name__ == "__main__":
    main()
