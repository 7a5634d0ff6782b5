"""Small GGUF files with random weights and a vocabulary, written with llama.cpp's package gguf."""

import re

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

# The elements and bytes of blocks that the package cannot make of floats, and where the scales are.
SCALES = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}

TEXT = """The keys and values of every token are kept, so that the next one costs little. When a
model answers, it reads all of its weights once for each token; 1234567890 numbers are read.
def main():\n    print("Hello, world!")\n\n    return 0
Größe, naïve café, 你好世界, привет мир, 🙂👍 — “quotes” … it's, I'll, we've, don't
"""

SAMPLES = ["", " ", "Hello, world!", "  two spaces\n\n\nand lines\n", "it's 12345 keys and values",
           "Größe naïve 你好 мир 🙂", "\tdef f(x):\n\t\treturn x**2 # no",
           "<|im_start|>user\nHi<|im_end|>", "a▁b   c", "...!!??--", TEXT]


def byte_letters():
    """The letters that stand for bytes in byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, more = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + more)
            more += 1
    return letters


def learn(words, merges):
    """Learns merges of lists of symbols: the most frequent pair is next."""
    learned = []
    for _ in range(merges):
        pairs = {}
        for word in words:
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + 1
        if not pairs:
            break
        best = max(sorted(pairs), key=pairs.get)
        learned.append(best)
        for word in words:
            i = 0
            while i < len(word) - 1:
                if (word[i], word[i + 1]) == best:
                    word[i:i + 2] = [word[i] + word[i + 1]]
                i += 1
    return learned


def gpt2(w, pre):
    """Adds a vocabulary of byte-level BPE, with special tokens after it."""
    letters = byte_letters()
    words = [[letters[b] for b in word.encode()] for word in re.findall(r" ?\w+|\s+|\W", TEXT)]
    merges = learn(words, 120)
    tokens = [letters[b] for b in range(256)] + [a + b for a, b in merges]
    tokens = list(dict.fromkeys(tokens))
    kinds = [1] * len(tokens)
    for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        tokens.append(token)
        kinds.append(3)
    tokens.append("<tool_call>")
    kinds.append(4)
    while len(tokens) % 8:
        tokens.append(f"[PAD{len(tokens)}]")
        kinds.append(5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges([" ".join(pair) for pair in merges])
    w.add_bos_token_id(tokens.index("<|endoftext|>"))
    w.add_eos_token_id(tokens.index("<|im_end|>"))
    w.add_add_bos_token(False)
    return len(tokens)


def llama(w, prefix):
    """Adds a vocabulary of SentencePiece's BPE, with bytes."""
    text = TEXT.replace(" ", "▁")
    words = [list(word) for word in re.findall(r"▁?[^▁\n]+|▁+|\n", text)]
    letters = sorted({c for word in words for c in word if c != "\n"})
    merges = learn(words, 150)
    tokens, kinds, scores = ["<unk>", "<s>", "</s>"], [2, 3, 3], [0.0, 0.0, 0.0]
    for b in range(256):
        tokens.append(f"<0x{b:02X}>")
        kinds.append(6)
        scores.append(0.0)
    for token in ("\n\n", "<|im_start|>", "<|im_end|>"):
        tokens.append(token)
        kinds.append(4 if token == "\n\n" else 3)
        scores.append(-1000.0)
    for i, token in enumerate(dict.fromkeys([a + b for a, b in merges] + letters)):
        if token in ("", "\n"):
            continue
        tokens.append(token)
        kinds.append(1)
        scores.append(float(-i))
    while len(tokens) % 8:
        tokens.append(f"<unused{len(tokens)}>")
        kinds.append(5)
        scores.append(-10000.0)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(kinds)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_space_prefix(prefix)
    return len(tokens)


def blocks(rng, shape, kind, deviation):
    """Random elements of a type, as bytes by rows. Blocks that the package does not make have
    random codes, and scales of their own."""
    x = (rng.standard_normal(shape) * deviation).astype(np.float32)
    if kind not in SCALES:
        return gguf.quantize(x, kind)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = int(np.prod(shape)) // elements
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    # The factors of scales have up to 6 bits, or 7 and a sign. Codes of 4 to 6 bits.
    d = {Type.Q4_K: 32 * 8, Type.Q5_K: 32 * 16, Type.Q6_K: 64 * 18}[kind]
    for at, low in zip(SCALES[kind], (1.0, 7.5 if kind == Type.Q4_K else 15.0)):
        scale = rng.uniform(0.5, 1.0, count) * low * deviation / d
        raw[:, at:at + 2] = scale.astype(np.float16).view(np.uint8).reshape(-1, 2)
    return raw.reshape(*shape[:-1], shape[-1] // elements * size)


def tensors(row, vocabulary, types, seed):
    """The tensors of a model by name: their type, and their elements as bytes or floats. types are
    those of the matrices, in turn."""
    rng = np.random.default_rng(seed)
    hidden = row.keys["embedding_length"]
    shapes = [("token_embd.weight", (vocabulary, hidden)), ("output_norm.weight", (hidden,))]
    if not row.tied:
        shapes.append(("output.weight", (vocabulary, hidden)))
    for i in range(row.keys["block_count"]):
        shapes += [(f"blk.{i}.{name}", shape) for name, shape in row.tensors]
    out = {}
    for at, (name, shape) in enumerate(shapes):
        if len(shape) == 1:
            x = rng.standard_normal(shape) * 0.1
            if name.endswith("norm.weight"):
                x = 1 + x
            if row.shifted: # exact in bfloat16 before 1 was added, as in originals
                x = (x.astype(np.float32).view(np.uint32) & 0xffff0000).view(np.float32)
            out[name] = (Type.F32, x.astype(np.float32))
        elif name.endswith("ffn_gate_inp.weight"):
            out[name] = (Type.F32, (rng.standard_normal(shape) / 8).astype(np.float32))
        else:
            kind = types[at % len(types)]
            out[name] = (kind, blocks(rng, shape, kind, 1.5 / shape[-1] ** 0.5))
    if row.rope_freqs:
        out["rope_freqs.weight"] = (Type.F32, np.array(row.rope_freqs, dtype=np.float32))
    return out


def write(path, row, types, seed=1, pre="qwen2", plain=False):
    """Writes a model. With plain, all elements become float32: the same numbers without blocks."""
    w = gguf.GGUFWriter(path, row.architecture)
    for key, value in row.keys.items():
        add = {int: w.add_uint32, float: w.add_float32, str: w.add_string}[type(value)]
        add(f"{row.architecture}.{key}", value)
    vocabulary = gpt2(w, pre) if row.vocabulary == "gpt2" else llama(w, row.prefix)
    w.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    all_tensors = tensors(row, vocabulary, types, seed)
    for name, (kind, data) in all_tensors.items():
        if plain:
            data, kind = gguf.dequantize(data, kind), Type.F32
        w.add_tensor(name, np.ascontiguousarray(data), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return all_tensors
