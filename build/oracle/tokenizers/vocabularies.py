"""Real vocabularies, and what their own libraries make of some texts, one JSON a line.

vocabularies.py FOLDER   FOLDER has llama.cpp (a clone) and gpt-tokenizer (the npm package)

Lines with "seconds" are for the comparison of speed: the time in which Hugging Face's tokenizers
encodes a file on one thread, the best of five.
"""

import base64
import glob
import importlib.util
import json
import os
import pathlib
import random
import struct
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

CACHE = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).parent
SEPARATOR = "\n__ggml_vocab_test__\n"
WORDS = (
    "the cache holds what model has read; it needn't 1234 Größe naïve Москва привет 日本語のテキスト "
    "中文 中文でABC中 Straße漢字's 한국어 हिन्दी ไทย def return print(x) \t \n\n    🙂 ✨ <s> [INST] "
    "don't WE'LL 3.14 ½ ² "
    "e\u0301 ﬁ \u3000 \u00a0 ' ▁ </s> <unk>"
).split(" ")


def texts(rng, count):
    out = [
        "",
        " ",
        "  ",
        "\n",
        " \n x",
        " Hello",
        "hello   world  ",
        "a▁b",
        "\x00\x01",
        "a\u200bb",
    ]
    for _ in range(count):
        space = " " if rng.random() < 0.8 else ""
        out.append(space.join(rng.choice(WORDS) for _ in range(rng.randint(1, 25))))
    return out


def line(path, kind, vectors):
    print(json.dumps({"path": str(path), "kind": kind, "vectors": vectors}))


def vectors(encode, decode):
    out = []
    for text in texts(random.Random(9), 400):
        ids = encode(text)
        out.append({"text": text, "ids": ids, "decode": ids, "decoded": decode(ids)})
    return out


def mistral():
    folder = pathlib.Path(importlib.util.find_spec("mistral_common").origin).parent / "data"
    for path in sorted(folder.glob("*.model*")):
        sp = SentencePieceProcessor(model_file=str(path))
        # SentencePiece shows an unknown token as other characters.
        line(
            path,
            "sentencepiece",
            vectors(sp.encode, lambda ids: None if sp.unk_id() in ids else sp.decode(ids)),
        )
    for path in sorted(folder.glob("tekken*.json")):
        t = Tekkenizer.from_file(str(path))
        line(path, "tekken", vectors(lambda s: t.encode(s, bos=False, eos=False), t.decode))


O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def o200k_rows():
    return [r.split() for r in (CACHE / "gpt-tokenizer/data/o200k_base.tiktoken").open("rb")]


def o200k():
    """The vocabulary of gpt-oss, as ranks; in the form of a tekken.json."""
    rows = o200k_rows()
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    t = tiktoken.Encoding("o200k", pat_str=O200K, mergeable_ranks=ranks, special_tokens={})
    path = CACHE / "o200k.json"
    path.write_text(
        json.dumps(
            {
                "config": {
                    "pattern": O200K,
                    "default_vocab_size": len(ranks),
                    "default_num_special_tokens": 0,
                },
                "vocab": [
                    {"rank": int(rank), "token_bytes": token.decode()} for token, rank in rows
                ],
                "special_tokens": [],
            }
        )
    )
    line(path, "tekken", vectors(t.encode_ordinary, t.decode))


# Kimi's, in tokenization_kimi.py.
CASED = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
SMALL = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = "|".join(
    [
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{CASED}*{SMALL}+{ENDING}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{CASED}+{SMALL}*{ENDING}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def kimi():
    """Kimi's expression with the vocabulary of gpt-oss, as a tiktoken.model."""
    rows = o200k_rows()
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    t = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens={})
    path = CACHE / "tiktoken.model"
    path.write_bytes(b"".join(token + b" " + rank + b"\n" for token, rank in rows))
    line(path, "tiktoken", vectors(t.encode_ordinary, t.decode))


def gguf():
    for path in sorted((CACHE / "llama.cpp/models").glob("*.gguf")):
        out = []
        if path.with_suffix(".gguf.inp").exists():
            inputs = path.with_suffix(".gguf.inp").read_bytes().decode().split(SEPARATOR)
            answers = path.with_suffix(".gguf.out").read_text().split("\n")
            for text, answer in zip(inputs, answers):
                ids = [int(i) for i in answer.split()]
                out.append({"text": text, "ids": ids, "decode": ids})
        line(path, "gguf", out)


def header(path):
    """The keys of a GGUF file."""
    f = open(path, "rb")
    _, _, _, count = struct.unpack("<4sIQQ", f.read(24))
    formats = {
        0: "B",
        1: "b",
        2: "H",
        3: "h",
        4: "I",
        5: "i",
        6: "f",
        7: "?",
        10: "Q",
        11: "q",
        12: "d",
    }

    def text():
        return f.read(struct.unpack("<Q", f.read(8))[0]).decode("utf8", "replace")

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = struct.unpack("<IQ", f.read(12))
            return [value(inner) for _ in range(n)]
        return struct.unpack("<" + formats[kind], f.read(struct.calcsize(formats[kind])))[0]

    return {text(): value(struct.unpack("<I", f.read(4))[0]) for _ in range(count)}


def split(pattern):
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


BYTES = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": False,
}
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, SPACES]}


def score_merges(tokens, scores):
    ids = {t: i for i, t in enumerate(tokens)}
    pairs = []
    for i, token in enumerate(tokens):
        for at in range(1, len(token)):
            if token[:at] in ids and token[at:] in ids:
                pairs.append((-scores[i], i, [token[:at], token[at:]]))
    return [pair for _, _, pair in sorted(pairs, key=lambda p: p[:2])]


def speed():
    """Times tokenizer.json files made of the vocabularies, on a file of this repository's text."""
    text = "".join(
        pathlib.Path(p).read_text()
        for p in sorted(
            glob.glob(str(HERE.parents[2] / "engine/**/*.go"), recursive=True)
            + glob.glob(str(HERE.parents[2] / "**/*.md"), recursive=True)
        )
    )
    text = text.encode()[: 1 << 20].decode("utf8", "ignore")
    corpus = CACHE / "speed.txt"
    corpus.write_text(text)
    models = CACHE / "llama.cpp/models"
    parts = {
        "llama-bpe": (None, {"type": "Sequence", "pretokenizers": [split(LLAMA3), BYTES]}),
        "qwen2": (
            {"type": "NFC"},
            {"type": "Sequence", "pretokenizers": [split(LLAMA3.replace("{1,3}", "")), BYTES]},
        ),
        "command-r": (
            None,
            {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Digits", "individual_digits": True},
                    BYTES | {"use_regex": True},
                ],
            },
        ),
        "gpt-oss": (None, {"type": "Sequence", "pretokenizers": [split(O200K), BYTES]}),
        "gemma-4": (
            SPACES,
            {
                "type": "Split",
                "pattern": {"String": " "},
                "behavior": "MergedWithPrevious",
                "invert": False,
            },
        ),
        "llama-spm": (PREPEND, None),
    }
    for name, (normalizer, pre) in parts.items():
        # For gpt-oss any vocabulary does, because its expression is what takes time.
        keys = header(models / f"ggml-vocab-{'llama-bpe' if name == 'gpt-oss' else name}.gguf")
        tokens = keys["tokenizer.ggml.tokens"]
        if "tokenizer.ggml.merges" in keys:
            merges = [
                m[0] + m[1:].split(" ", 1)[0] + "\x00" + m[1:].split(" ", 1)[1]
                for m in keys["tokenizer.ggml.merges"]
            ]
            merges = [m.split("\x00") for m in merges]
        else:
            merges = score_merges(tokens, keys["tokenizer.ggml.scores"])
        plain = name in ("gemma-4", "llama-spm")
        spec = {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": normalizer,
            "pre_tokenizer": pre,
            "post_processor": None,
            "decoder": {"type": "Fuse"} if plain else {"type": "ByteLevel"} | BYTES,
            "model": {
                "type": "BPE",
                "byte_fallback": plain,
                "fuse_unk": plain,
                "ignore_merges": name in ("llama-bpe", "gpt-oss"),
                "vocab": {t: i for i, t in enumerate(tokens)},
                "merges": merges,
            },
        }
        path = CACHE / f"speed-{name}.json"
        path.write_text(json.dumps(spec))
        t = Tokenizer.from_file(str(path))
        best, ids = 1e9, []
        for _ in range(5):
            start = time.perf_counter()
            ids = t.encode(text, add_special_tokens=False).ids
            best = min(best, time.perf_counter() - start)
        print(
            json.dumps(
                {
                    "path": str(path),
                    "kind": "json",
                    "seconds": best,
                    "vectors": [{"text": text, "ids": ids, "decode": []}],
                }
            )
        )


if __name__ == "__main__":
    mistral()
    o200k()
    kimi()
    gguf()
    speed()
