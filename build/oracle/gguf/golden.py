"""Writes what the tests of Headroom compare with: `build/oracle/gguf/run --golden`.

engine/gguf/testdata/blocks.json has blocks of every type, in base64, and their elements in float32
as the package gguf computes them. engine/testdata/gguf has small models, and golden.json with what
llama.cpp says of them: the log-probabilities of a prompt's tokens, and the ids of texts. The
log-probabilities are those of the same numbers in float32; see oracle.py.
"""

import base64
import json
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import files
import layouts
import peer
import rows

ROOT = Path(__file__).resolve().parents[3]
TYPES = (Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0,
         Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.MXFP4)
PROMPT = 24


def vectors():
    """Blocks of random bytes, whose scales are finite, and their elements."""
    rng, out = np.random.default_rng(5), {}
    at = {Type.F32: (), Type.F16: (0,), Type.BF16: (), Type.Q4_0: (0,), Type.Q4_1: (0, 2),
          Type.Q5_0: (0,), Type.Q5_1: (0, 2), Type.Q8_0: (0,), Type.MXFP4: (),
          **files.SCALES}
    for kind in TYPES:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 3 if elements == 256 else 6
        raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
        if kind in (Type.F32, Type.BF16):
            raw[:, -1] &= 0x3f
        if kind == Type.MXFP4:
            raw[:, 0] = (0, 1, 2, 120, 127, 250) # exponents; 255 is no number
        for place in at[kind]: # positive, negative, and one below the normal numbers
            scale = (rng.standard_normal(count) * 0.01).astype(np.float16)
            scale[-1] = np.float16(3e-6)
            raw[:, place:place + 2] = scale.view(np.uint8).reshape(-1, 2)
        floats = gguf.dequantize(raw, kind).astype(np.float32)
        out[kind.name] = {"blocks": base64.b64encode(raw.tobytes()).decode(),
                          "floats": base64.b64encode(floats.tobytes()).decode()}
    return out


def small(architecture, hidden, heads, dim, wide, **of):
    """A row of one layer."""
    rows.HIDDEN, rows.WIDE = hidden, wide
    rows.HEADS, rows.KV_HEADS, rows.DIM = heads, heads // 2, dim
    keys = {**rows.BASE, "block_count": 1, "context_length": 64, "embedding_length": hidden,
            "feed_forward_length": wide, "attention.head_count": heads,
            "attention.head_count_kv": heads // 2, "attention.key_length": dim,
            "attention.value_length": dim, "rope.dimension_count": dim}
    norms = architecture == "qwen3"
    layer = rows.layer(rows.norms(*rows.PLAIN), rows.attention(norms=norms), rows.mlp())
    return rows.Row(architecture, layer, keys, tied=True, **of)


def write_layouts(folder, golden):
    """Adds models whose tensors are in another order than in the original."""
    layouts.shrink()
    for name, kind in (("qwen35moe", Type.Q8_0), ("qwen3next", Type.Q4_0),
                       ("deepseek_v3", Type.Q5_0), ("deepseek_v3-old", Type.Q8_0),
                       ("gpt-oss", Type.Q8_0)):
        of, ends = layouts.ORIGINALS[name]()
        layouts.write_gguf(folder / f"{name}.gguf", of, ends, kind)
        vocabulary = of.gguf["token_embd.weight"].shape[0]
        ids = [int(i) for i in np.random.default_rng(7).integers(3, vocabulary - 16, PROMPT)]
        with tempfile.TemporaryDirectory() as temporary:
            plain = Path(temporary) / "plain.gguf"
            layouts.write_gguf(plain, of, ends, kind, plain=True)
            golden[name] = {"ids": ids, "logprobs": peer.Peer(plain).logprobs(ids, vocabulary)}


def write():
    folder = ROOT / "engine/gguf/testdata"
    folder.mkdir(exist_ok=True)
    (folder / "blocks.json").write_text(json.dumps(vectors(), indent=1) + "\n")
    folder, golden = ROOT / "engine/testdata/gguf", {}
    folder.mkdir(exist_ok=True)
    models = {
        "llama": (small("llama", 256, 4, 64, 256, vocabulary="llama"),
                  (Type.Q5_K, Type.Q4_K, Type.Q6_K, Type.Q4_K)),
        "qwen3": (small("qwen3", 64, 2, 32, 64),
                  (Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.F16, Type.BF16)),
    }
    for name, (row, types) in models.items():
        made = files.write(folder / f"{name}.gguf", row, types)
        vocabulary = made["token_embd.weight"][1].shape[0]
        rng = np.random.default_rng(7)
        ids = [int(i) for i in rng.integers(3, vocabulary - 16, PROMPT)]
        with tempfile.TemporaryDirectory() as temporary:
            plain = Path(temporary) / "plain.gguf"
            files.write(plain, row, types, plain=True)
            other = peer.Peer(plain)
            golden[name] = {"ids": ids, "logprobs": other.logprobs(ids, vocabulary),
                            "texts": [{"text": text, "ids": other.tokenize(text)}
                                      for text in files.SAMPLES]}
    write_layouts(folder, golden)
    (folder / "golden.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
