"""Compares GGUF files that Headroom has converted with llama.cpp on the same files: `make oracle
ARGS=--gguf`, for a part `make oracle ARGS="--gguf --rows llama,qwen3"`.

Four things are compared, for small models with random weights (files.py, rows.py):

1. Architectures. A file in float32 is converted, and the log-probability of each token of a prompt
   must agree. Both sides compute in float32. Sums have another order, which costs up to 1e-5, so
   the tolerance is 1e-4. ggml looks GELU up in a table of float16, so it is 5e-3 for Gemma. A wrong
   order of rows, a norm without its 1 or a missing factor costs 5e-2 and more.
2. Layouts. Files of architectures whose tensors are in another order than in the original
   (layouts.py) must give the log-probabilities of llama.cpp, and those of the original in
   Hugging Face's layout within 1e-5. With each of some types, they must give those of llama.cpp
   with the same numbers.
3. Types. A file with each type of blocks is converted. Where Headroom says that a type is exact,
   the elements of the result must be those of llama.cpp's package gguf. With --dtype float32 those
   of all types but Q6_K must be. The relative error that Headroom prints must be the one that is
   measured here. llama.cpp gets the same numbers in float32, because for blocks it rounds
   activations to 8 bits. So the tolerance of the log-probabilities is 1e-4, and 40 times the
   relative error where elements are rounded. With --dtype bfloat16 norms are rounded, too, which
   costs up to 0.1.
4. Tokens. The ids of sample texts must be equal.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import files
import golden
import layouts
import peer
from rows import ROWS

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "build/oracle/models"))
import server  # noqa: E402

PLAIN = (Type.F32,)
TYPES = (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K,
         Type.Q5_K, Type.Q6_K)
EXACT = (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1)
TOLERANCE, GELU, ORIGINAL = 1e-4, 5e-3, 1e-5
PROMPT = 40

# The values of tokenizer.ggml.pre whose expressions are compared.
PRE = ("qwen2", "llama-bpe", "gpt-2", "gpt-4o", "tekken", "smollm", "deepseek-v3", "deepseek-llm",
       "qwen35", "falcon", "starcoder")


def convert(headroom, path, folder, flags=()):
    done = subprocess.run([headroom, "convert", path, folder, *flags], capture_output=True,
                          text=True)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return done.stdout


def logprobs(headroom, folder, ids):
    """What Headroom says of the ids but the first."""
    with server.Server(headroom, folder, context=len(ids) + 2) as s:
        reply = s.complete({"prompt": ids, "echo": True, "logprobs": 1, "max_tokens": 1,
                            "temperature": 0})
    return reply["choices"][0]["logprobs"]["token_logprobs"][1:len(ids)]


def difference(a, b):
    return float(np.max(np.abs(np.array(a) - np.array(b))))


def ids_of(vocabulary, seed=3):
    rng = np.random.default_rng(seed)
    return [int(i) for i in rng.integers(3, vocabulary - 16, PROMPT)]


def architecture(name, headroom, folder):
    """Returns the largest difference of a row in float32."""
    path, out = folder / f"{name}.gguf", folder / name
    made = files.write(path, ROWS[name], PLAIN)
    convert(headroom, path, out)
    vocabulary = made["token_embd.weight"][1].shape[0]
    ids = ids_of(vocabulary)
    return difference(peer.Peer(path).logprobs(ids, vocabulary), logprobs(headroom, out, ids))


# The types of layouts beside float32. Elements of K types are exact with --dtype float32.
LAYOUT_TYPES = {"qwen35": (Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.MXFP4),
                "qwen3next": (Type.Q4_1, Type.Q4_K), "qwen35moe": (Type.Q5_0,),
                "deepseek_v3": (Type.Q8_0, Type.Q4_K), "deepseek_v3-old": (Type.Q8_0,),
                "gpt-oss": (Type.Q8_0,)}


def layout(name, headroom, folder, kind=None):
    """Returns the largest difference of a layout, with matrices of a type, from llama.cpp, and
    that from the original, which is in float32; 0 with a type."""
    of, ends = layouts.ORIGINALS[name]()
    path, out = folder / f"{name}.gguf", folder / f"{name}{kind.name if kind else ''}"
    layouts.write_gguf(path, of, ends, kind)
    convert(headroom, path, out, ("--dtype", "float32"))
    vocabulary = of.gguf["token_embd.weight"].shape[0]
    ids = ids_of(vocabulary)
    got, original = logprobs(headroom, out, ids), 0.0
    if kind is None:
        whole = folder / f"{name}-original"
        layouts.write_original(whole, of, out)
        original = difference(got, logprobs(headroom, whole, ids))
    layouts.write_gguf(folder / "plain.gguf", of, ends, kind, plain=True)
    return difference(peer.Peer(folder / "plain.gguf").logprobs(ids, vocabulary), got), original


def compare_layouts(names, headroom, folder):
    """Compares layouts, and returns the names of those that differ."""
    failed = []
    for name in names:
        for kind in (None, *LAYOUT_TYPES.get(name, ())):
            title = f"{name} {kind.name}" if kind else name
            try:
                worst, original = layout(name, headroom, folder, kind)
            except (ValueError, server.Failed) as err:
                print(f"{title:24} FAILED: {err}")
                failed.append(title)
                continue
            bad = not (worst <= TOLERANCE and original <= ORIGINAL)
            failed += [title] * bad
            text = "" if kind else f", within {original:.1e} of the original"
            print(f"{title:24} log-probabilities within {worst:.1e}{text}{'  FAILED' * bad}",
                  flush=True)
    return failed


def read_safetensors(folder):
    """The tensors of a folder as arrays; bfloat16 as float32."""
    out = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        data = path.read_bytes()
        n = int.from_bytes(data[:8], "little")
        for name, t in json.loads(data[8:8 + n]).items():
            if name == "__metadata__":
                continue
            raw = data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
            if t["dtype"] == "BF16":
                x = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                kinds = {"F32": np.float32, "F16": np.float16, "U32": np.uint32}
                x = np.frombuffer(raw, kinds[t["dtype"]])
            out[name] = x.reshape(t["shape"])
    return out


def unpack(found, config, module):
    """The elements of a module of an MLX folder in float32, as its affine mode defines them."""
    w = found[module + ".weight"]
    if module + ".scales" not in found:
        return w.astype(np.float32)
    all_of = config["quantization"]
    bits = all_of.get(module, all_of)["bits"]
    group = all_of.get(module, all_of)["group_size"]
    stream = np.unpackbits(w.view(np.uint8).reshape(*w.shape[:-1], -1), axis=-1,
                           bitorder="little")
    codes = stream.reshape(*w.shape[:-1], -1, bits)
    codes = (codes * (1 << np.arange(bits))).sum(axis=-1).astype(np.float32)
    scales = np.repeat(found[module + ".scales"].astype(np.float32), group, axis=-1)
    biases = np.repeat(found[module + ".biases"].astype(np.float32), group, axis=-1)
    return codes * scales + biases


def module_of(name):
    """The module of a tensor of the row qwen3, whose rows have the order of the file."""
    if name.startswith("token_embd"):
        return "model.embed_tokens"
    parts = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{parts[part]}"


def type_of(kind, headroom, folder, flags=()):
    """Converts a file with a type. Returns what is wrong, and a description of the rest."""
    row = ROWS["qwen3"]
    path, out = folder / f"{kind.name}.gguf", folder / f"{kind.name}{''.join(flags)}"
    made = files.write(path, row, (kind,))
    said = convert(headroom, path, out, flags)
    found = read_safetensors(out)
    config = json.loads((out / "config.json").read_text())
    changes = elements = 0.0
    equal = True
    for name, (of, data) in made.items():
        if of != kind:
            continue
        want = gguf.dequantize(data, kind)
        got = unpack(found, config, module_of(name))
        equal = equal and np.array_equal(got, want)  # but for the sign of zero
        changes += float(((got.astype(np.float64) - want) ** 2).sum())
        elements += float((want.astype(np.float64) ** 2).sum())
    error = (changes / elements) ** 0.5
    must = kind in EXACT and "bfloat16" not in flags or "float32" in flags and kind != Type.Q6_K
    wrong = []
    if must and not equal:
        wrong.append(f"elements differ, relative error {error:.1e}")
    printed = re.search(rf"^{kind.name}: .*?(exact|relative error (\S+))$", said, re.M)
    if kind not in (Type.F16, Type.BF16):
        value = 0.0 if printed and printed[1] == "exact" else float(printed[2]) if printed else -1
        if abs(value - error) > 0.06 * error:
            wrong.append(f"it says {said.splitlines()[0]!r}, and the relative error is {error:.3g}")
    vocabulary = made["token_embd.weight"][1].shape[0]
    ids = ids_of(vocabulary)
    files.write(folder / "plain.gguf", row, (kind,), plain=True)
    worst = difference(peer.Peer(folder / "plain.gguf").logprobs(ids, vocabulary),
                       logprobs(headroom, out, ids))
    limit = TOLERANCE + 40 * error + 0.1 * ("bfloat16" in flags)
    if not worst <= limit:
        wrong.append(f"log-probabilities differ by {worst:.3g}, the tolerance is {limit}")
    how = "exact" if equal else f"relative error {error:.1e}"
    return wrong, f"{how}, log-probabilities within {worst:.1e}"


def tokens(name, row, pre, headroom, folder):
    """Compares the ids of sample texts. Returns what differs."""
    path, out = folder / f"{name}.gguf", folder / name
    files.write(path, row, PLAIN, pre=pre)
    convert(headroom, path, out)
    other, wrong = peer.Peer(path), []
    with server.Server(headroom, out, context=2048) as s:
        for text in files.SAMPLES:
            want = other.tokenize(text)
            got = s.post("/tokenize", {"prompt": text})["tokens"]
            if got != want:
                wrong.append(f"{text[:40]!r} has {got[:24]}, llama.cpp {want[:24]}")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--rows", default="", help="architectures to run; default: everything")
    p.add_argument("--golden", action="store_true",
                   help="write the vectors and files of engine/gguf/testdata; see golden.py")
    p.add_argument("--headroom", default=str(ROOT / "bin/headroom"), help="the program to test")
    p.add_argument("--gguf", action="store_true", help="does nothing: make oracle has it")
    p.add_argument("--types", default="", help="does nothing: make oracle has it")
    o = p.parse_args()
    if o.golden:
        golden.write()
        return
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = o.rows.replace(",", " ").split()
        for name in [n for n in names if n not in layouts.ORIGINALS] if names else sorted(ROWS):
            try:
                worst = architecture(name, o.headroom, folder)
            except (ValueError, server.Failed) as err:
                print(f"{name:14} FAILED: {err}")
                failed.append(name)
                continue
            bad = not worst <= (GELU if ROWS[name].shifted else TOLERANCE)
            failed += [name] * bad
            print(f"{name:14} log-probabilities within {worst:.1e}{'  FAILED' * bad}", flush=True)
        failed += compare_layouts([n for n in layouts.ORIGINALS if n in names or not names],
                                  o.headroom, folder)
        if not o.rows:
            for kind in TYPES:
                for flags in ((), ("--dtype", "float32"), ("--dtype", "bfloat16")):
                    wrong, text = type_of(kind, o.headroom, folder, flags)
                    title = " ".join([kind.name, *flags])
                    print(f"{title:24} {text}")
                    for one in wrong:
                        print("  FAILED:", one)
                        failed.append(title)
            sets = [(f"tokens {pre}", ROWS["qwen3"], pre) for pre in PRE]
            sets += [("tokens llama", ROWS["llama"], ""), ("tokens gemma", ROWS["gemma"], "")]
            for name, row, pre in sets:
                wrong = tokens(name.replace(" ", "-"), row, pre, o.headroom, folder)
                print(f"{name:24} {len(files.SAMPLES)} texts{', FAILED' * bool(wrong)}")
                for one in wrong:
                    print("  ", one)
                failed += [name] * bool(wrong)
    if failed:
        sys.exit(f"oracle: failed: {', '.join(failed)}")
    print("oracle: converted GGUF files agree with llama.cpp")


if __name__ == "__main__":
    main()
