"""Compares `headroom convert` with mlx-lm: `make oracle ARGS=--convert`, for a part with TYPES.

First, groups of all kinds in every format have the bits that MLX's Metal kernels give (metal.py).
Then random models are converted by mlx-lm, with these kernels in place of MLX's own, and by
Headroom. Names, shapes, types and bytes of all tensors must be equal, and so must config.json.
mlx-lm loads what Headroom has written. The sources are in mlx-lm's layout and in that of the
originals.
"""

import contextlib
import importlib
import io
import json
import shutil
import subprocess
import zlib
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes, load_config, load_model

import metal
import weights

# These are converted in every way, and other types in three.
ALL = ("llama", "qwen3", "qwen3_moe", "qwen3_5_moe", "gpt_oss", "gemma4")
FEW = ("plain", "affine", "mixed_2_6")

# The flags of Headroom, and the arguments of mlx-lm.
CONVERSIONS = {
    "plain": ([], {}),
    "affine": (["-q"], {"quantize": True}),
    "3 bits": (["--bits", "3", "--group-size", "32"],
               {"quantize": True, "q_bits": 3, "q_group_size": 32}),
    "mxfp4": (["--mode", "mxfp4"], {"quantize": True, "q_mode": "mxfp4"}),
    "mxfp8": (["--mode", "mxfp8"], {"quantize": True, "q_mode": "mxfp8"}),
    "nvfp4": (["--mode", "nvfp4"], {"quantize": True, "q_mode": "nvfp4"}),
    "mixed_2_6": (["--quant-predicate", "mixed_2_6", "--group-size", "32"],
                  {"quantize": True, "quant_predicate": "mixed_2_6", "q_group_size": 32}),
    "float16": (["-q", "--dtype", "float16"], {"quantize": True, "dtype": "float16"}),
}


def hard_groups(rng, dtype, rows, width):
    """A matrix with groups that are hard to pack."""
    most = 65504.0 if dtype == mx.float16 else 3.3e38
    groups = []
    for scale in (1, 0.02, 1e-3, 1e-5, 1e-7, 3e-8, 1e-20, 1e-38, 1e-41, 1e4, most / 8):
        x = rng.standard_normal((4, width)) * scale
        groups += [*x, np.abs(x[0]), -np.abs(x[1]), np.full(width, scale), np.full(width, -scale)]
    at = np.arange(width)
    groups += [np.zeros(width), -np.zeros(width), np.full(width, most), np.full(width, -most),
               most * (1 - 2 * (at % 2)), at / 4, 6 - at % 64 / 4, at / 8 - 6, at * 2.0**-10,
               448 - 8.0 * (at % 32)]
    groups.append(np.where(at % 32 == 7, -100, 0.01 * rng.standard_normal(width)))
    below = np.zeros(width)  # in 2 bits, a quotient is the largest float below 0.5
    below[::32], below[1::32] = 6 - 20 * 2.0**-23, 5 - 16 * 2.0**-23
    groups.append(below)
    while len(groups) < rows:
        groups.append(rng.standard_normal(width) * 10.0 ** rng.uniform(-8, 4))
    x = np.clip(np.array(groups[:rows]), -most, most).astype(np.float32)
    return mx.array(x).astype(dtype)


def run(headroom, source, folder, flags):
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([headroom, "convert", source, folder, *flags], capture_output=True,
                          text=True)
    if done.returncode:
        raise ValueError(done.stderr.strip())


def same(a, b):
    view = lambda x: np.array(x.flatten().view(mx.uint8))  # noqa: E731
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(view(a), view(b))


LLAMA = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1, "vocab_size": 300,
         "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4,
         "rms_norm_eps": 1e-6, "tie_word_embeddings": True}


def check_groups(headroom, folder):
    """Returns the formats in which groups differ from those of Metal."""
    failed, rng, count = [], np.random.default_rng(3), 0
    formats = [("affine", bits, group) for bits, group in metal.AFFINE]
    formats += [(mode, *format) for mode, format in metal.MODES.items()]
    model_class, args = _get_classes(LLAMA)
    model = model_class(args.from_dict(LLAMA))
    for dtype in metal.TYPES:
        model.set_dtype(dtype)
        w = hard_groups(rng, dtype, 300, 256)
        source = Path(folder, "groups")
        write(source, LLAMA, {**dict(tree_flatten(model.parameters())),
                              "model.embed_tokens.weight": w})
        for mode, bits, group in formats:
            run(headroom, source, Path(folder, "packed"),
                ["--mode", mode, "--bits", str(bits), "--group-size", str(group)])
            got = mx.load(str(Path(folder, "packed", "model.safetensors")))
            parts = ("weight", "scales", "biases")
            for part, want in zip(parts, metal.quantize(w, group, bits, mode)):
                x = got["model.embed_tokens." + part]
                if not same(x, want):
                    rows = np.unique(np.nonzero(np.array((x != want).astype(mx.uint8)))[0])
                    failed.append(f"{mode} {bits} bits, groups of {group}, {dtype}: {part} of rows "
                                  f"{rows[:8]}")
            count += 1
    print(f"groups: {count} formats and types, {len(failed)} differ from MLX's Metal kernels")
    return failed


def write(folder, config, tensors):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(weights.tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<t256>"}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [256, 257]}))


def unstack(tensors, module, parts=None, expert="experts"):
    """Experts apart, as originals before transformers 5 have them."""
    new = {}
    for path, x in tensors.items():
        before, found, part = path.partition(f".{module}.")
        if not found or x.ndim != 3:
            new[path] = x
            continue
        name, _, suffix = part.partition(".")
        for e in range(x.shape[0]):
            new[f"{before}.{expert}.{e}.{(parts or {}).get(name, name)}.{suffix}"] = x[e]
    return new


def fuse(tensors, module, to):
    """Experts with gate and up in one tensor."""
    new = {}
    for path, x in tensors.items():
        before, found, part = path.partition(f".{module}.")
        if not found:
            new[path] = x
        elif part == "gate_proj.weight":
            up = tensors[f"{before}.{module}.up_proj.weight"]
            new[f"{before}.{to}.gate_up_proj"] = mx.concatenate([x, up], axis=1)
        elif part == "down_proj.weight":
            new[f"{before}.{to}.down_proj"] = x
    return new


def rename(tensors, *pairs):
    new = {}
    for path, x in tensors.items():
        for old, to in pairs:
            if path.startswith(old):
                path = to + path.removeprefix(old)
                break
        new[path] = x
    return new


def qwen3_5(tensors):
    """The original: other prefixes, fused experts, convolutions of another shape."""
    new = rename(fuse(tensors, "switch_mlp", "experts"),
                 ("language_model.model.", "model.language_model."),
                 ("language_model.lm_head.", "lm_head."))
    for path, x in new.items():
        if "conv1d.weight" in path:
            new[path] = mx.contiguous(x.swapaxes(1, 2))
    new["mtp.fc.weight"] = mx.zeros((4, 4))
    new["model.visual.patch_embed.proj.weight"] = mx.zeros((4, 4))
    return new


def convolutions(tensors):
    return {path: mx.contiguous(x.swapaxes(1, 2)) if "conv" in path and x.ndim == 3 else x
            for path, x in tensors.items()}


def gpt_oss(tensors):
    """The original: experts in blocks of MXFP4, with the rows of gate and up in turn."""
    new = {}
    for path, x in tensors.items():
        module, found, part = path.partition(".experts.")
        if not found:
            new[path] = x
            continue
        module += ".experts."
        if part.startswith("gate_proj."):
            up = tensors[module + part.replace("gate", "up")]
            x = mx.stack([x, up], axis=2).reshape(x.shape[0], -1, *x.shape[2:])
        elif part.startswith("up_proj."):
            continue
        name = module + ("down_proj" if part.startswith("down") else "gate_up_proj")
        if part.endswith("bias"):
            new[name + "_bias"] = x
            continue
        codes, scales = metal.quantize(x, mode="mxfp4")
        new[name + "_blocks"] = codes.view(mx.uint8).reshape(*scales.shape, 16)
        new[name + "_scales"] = scales
    return new


# What config.json of an original says, too.
KEYS = {
    "gpt_oss": {"quantization_config": {"quant_method": "mxfp4",
                                        "modules_to_not_convert": ["lm_head"]}},
    "falcon_h1": {"attention_in_multiplier": 1.3, "attention_out_multiplier": 0.8,
                  "ssm_in_multiplier": 1.2, "ssm_out_multiplier": 0.7, "embedding_multiplier": 3.1,
                  "lm_head_multiplier": 0.3, "ssm_multipliers": [0.5, 1.5, 0.7, 1.3, 0.8],
                  "mlp_multipliers": [0.8, 1.4]},
}
# Tensors that Headroom keeps, because it computes with them. mlx-lm leaves them out when it loads.
KEPT = {"ernie4_5_moe": "e_score_correction_bias"}
MIXTRAL = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
COMMON = lambda t: unstack(t, "switch_mlp")  # noqa: E731

# The layout of the originals, from the tensors of mlx-lm's class. Others are the same in both.
ORIGINALS = {
    "falcon_h1": convolutions, "gpt_oss": gpt_oss,
    "afmoe": lambda t: unstack(t, "experts"),
    "deepseek": COMMON, "deepseek_v2": COMMON, "dots1": lambda t: unstack(t, "experts"),
    "ernie4_5_moe": COMMON, "glm4_moe": COMMON,
    "mellum": COMMON, "olmoe": COMMON, "qwen2_moe": COMMON, "qwen3_moe": COMMON,
    "mixtral": lambda t: unstack(t, "switch_mlp", MIXTRAL),
    "minimax_m2": lambda t: unstack(t, "switch_mlp", MIXTRAL),
    "qwen3_5": qwen3_5, "qwen3_5_moe": qwen3_5, "qwen3_next": lambda t: convolutions(COMMON(t)),
    "gemma4": lambda t: fuse(rename(t, ("language_model.model.", "model.language_model.")),
                             "experts.switch_glu", "experts"),
    "lfm2": convolutions,
    "lfm2_moe": lambda t: unstack(convolutions(t), "switch_mlp", MIXTRAL),
    "nemotron_h": lambda t: unstack(convolutions(t), "switch_mlp",
                                    {"fc1": "up_proj", "fc2": "down_proj"}),
    "granitemoehybrid": convolutions,
}


def make(name, row, variant, folder, original):
    """Writes the source of a conversion. Returns the config of mlx-lm's class."""
    config = weights.config_of(name, row, variant, mlx=True)
    model_class, args = _get_classes(config)
    mx.random.seed(zlib.crc32(name.encode()))
    model = model_class(args.from_dict(json.loads(json.dumps(config))))
    weights.initialize(model, config, name)
    model.set_dtype(mx.bfloat16)
    tensors = {path.removeprefix(row.strip): x for path, x in tree_flatten(model.parameters())}
    if original:
        tensors = ORIGINALS[name](tensors)
        config.update(KEYS.get(name, {}))
    config.update(torch_dtype="bfloat16", vision_config={"depth": 1}, _name_or_path="x")
    write(folder, config, {path: mx.contiguous(x) for path, x in tensors.items()})
    return config


mlx_convert = importlib.import_module("mlx_lm.convert")  # mlx_lm.convert is the function


class Tokenizer:
    """Stands for that of the source: transformers does not read weights.tokenizer."""

    def save_pretrained(self, folder):
        pass


def load(path, **_):
    model, loaded = load_model(Path(path), lazy=True)
    config = load_config(Path(path))  # some classes change what they are given
    config.update({key: loaded[key] for key in ("quantization", "quantization_config")
                   if key in loaded})
    return model, Tokenizer(), config


def reference(source, folder, arguments):
    """Converts with mlx-lm, which packs as on a Mac."""
    shutil.rmtree(folder, ignore_errors=True)
    usual, mx.quantize, mlx_convert.load = mx.quantize, metal.quantize, load
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            mlx_convert.convert(str(source), str(folder), **arguments)
    finally:
        mx.quantize = usual


def tensors_of(folder):
    found = {}
    for file in sorted(folder.glob("model*.safetensors")):
        found.update(mx.load(str(file)))
    return found


def formats(config, names):
    """The format of each packed module."""
    packing = config["quantization"]
    default = {key: packing[key] for key in ("group_size", "bits", "mode")}
    modules = [name.removesuffix(".scales") for name in names if name.endswith(".scales")]
    return {m: {"mode": "affine", **packing[m]} if m in packing else default for m in modules}


def differences(got, want, kept):
    """What differs between two folders. Tensors with the text kept in their name may be in got
    alone."""
    a, b, found = tensors_of(got), tensors_of(want), []
    names = b.keys()
    if missing := sorted(b.keys() - a.keys()):
        found.append(f"lacks {missing[:4]}")
    if more := sorted(name for name in a.keys() - b.keys() if not kept or kept not in name):
        found.append(f"has {more[:4]}")
    found += [f"{path} is {a[path].dtype} of {a[path].shape}, mlx-lm's {b[path].dtype} of "
              f"{b[path].shape}" if a[path].shape != b[path].shape or a[path].dtype != b[path].dtype
              else f"{path} has other bytes"
              for path in sorted(a.keys() & b.keys()) if not same(a[path], b[path])][:4]
    a, b = (json.loads((folder / "config.json").read_text()) for folder in (got, want))
    if b.get("quantization", {}).get("mode") == "mxfp4":
        # mlx-lm keeps the default of an original in MXFP4, whatever it packs the other modules as.
        for config in (a, b):
            config["quantization"] = config["quantization_config"] = formats(config, names)
    found += [f"config.json: {key} is {a.get(key)}, mlx-lm's {b.get(key)}"[:300]
              for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)
              and key != "torch_dtype"]  # with --dtype, Headroom writes the new one
    a, b = (json.loads((folder / "model.safetensors.index.json").read_text())
            for folder in (got, want))
    # mlx-lm does not count parameters that are in no layer of MLX.
    del a["metadata"]["total_parameters"], b["metadata"]["total_parameters"]
    a["weight_map"] = {path: file for path, file in a["weight_map"].items()
                       if not kept or kept not in path}
    if kept:
        a["metadata"], b["metadata"] = {}, {}
    if a != b:
        found.append("the index differs")
    return found


def check(headroom, name, row, variant, folder, original, conversions):
    """Returns what differs, by conversion."""
    source, found = Path(folder, "source"), {}
    make(name, row, variant, source, original)
    for title, (flags, arguments) in conversions.items():
        got, want = Path(folder, "got"), Path(folder, "want")
        try:
            reference(source, want, arguments)
        except ValueError as err:
            if "group" in str(err) or "expected keys" in str(err) or "divisible" in str(err):
                continue  # mlx-lm cannot do it
            raise
        try:
            run(headroom, source, got, flags)
            if wrong := differences(got, want, KEPT.get(name)):
                found[title] = "; ".join(wrong)
                continue
            load_model(got, lazy=True)
        except ValueError as err:
            found[title] = str(err)
    return found


def compare(types, rows, headroom, folder, all_types):
    """Returns the titles of failures."""
    failed = check_groups(headroom, folder) if all_types else []
    for title in failed:
        print(f"  {title}")
    for name in types:
        row, wrong, count = rows[name], {}, 0
        for number, variant in enumerate(row.variants):
            for original in (False, True) if ORIGINALS.get(name) else (False,):
                conversions = {title: CONVERSIONS[title] for title in CONVERSIONS
                               if name in ALL or title in FEW}
                found = check(headroom, name, row, variant, folder, original, conversions)
                count += len(conversions)
                wrong.update({f"{name} {number} {'original ' * original}{title}": text
                              for title, text in found.items()})
        print(f"{name}: {count} conversions, {len(wrong)} differ from mlx-lm's", flush=True)
        for title, text in wrong.items():
            print(f"  {title}: {text[:400]}")
        failed += wrong
    return failed
