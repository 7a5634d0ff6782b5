"""Makes random models with mlx-lm's classes, and their log-probabilities.

Weights are drawn so that an error anywhere shows in the log-probabilities: matrices keep the size
of what they multiply, vectors differ from their initial values (norm weights from 1, biases from
0), and the logits differ by about 3.
"""

import copy
import json
import re
import zlib
from types import SimpleNamespace

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models import gemma, starcoder2
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import _get_classes, quantize_model

mx.set_default_device(mx.cpu)

# MLX rounds the rows of an embedding packed in mxfp4 or mxfp8 to bfloat16, whatever the model's
# type is. The rows are exact in it, but what a model multiplies them with, as Gemma does, is
# rounded too. Products are not rounded: in float32, MLX multiplies with the exact elements.
look_up = nn.QuantizedEmbedding.__call__
nn.QuantizedEmbedding.__call__ = lambda self, ids: look_up(self, ids).astype(mx.float32)

# The checkpoints of Gemma and StarCoder2 were trained with the tanh approximation of GELU, which
# transformers computes. mlx-lm computes the exact one.
gemma.nn = SimpleNamespace(**{**vars(nn), "gelu": nn.gelu_approx})
starcoder2.nn = gemma.nn

VOCABULARY = 512  # tokens of the tokenizer; models may have fewer
LOGITS = 3.0  # their standard deviation


def config_of(name, row, variant, mlx=False):
    """The config.json of a variant; with mlx, under the name that mlx-lm knows."""
    text = copy.deepcopy({**row.base, **variant})
    outer = (row.mlx if mlx else "") or name
    if not row.inside:
        return {"model_type": outer, **text}
    tied = {k: text[k] for k in ("tie_word_embeddings",) if k in text}
    return {"model_type": outer, **tied, "vocab_size": text["vocab_size"],
            "text_config": {"model_type": row.inside, **text}}


def fan_in(shape):
    """The number of inputs of an output of a matrix, a stack of matrices or a convolution."""
    return shape[-1] if shape[-1] > 1 else int(np.prod(shape[1:]))


def draw(model, seed):
    """Returns random values for the weights of a model, by path."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    new = []
    for path, old in tree_flatten(model.parameters()):
        x = rng.standard_normal(old.shape).astype(np.float32)
        if len(old.shape) < 2:
            new.append((path, old.astype(mx.float32) + mx.array(0.2 * x)))
            continue
        gain = LOGITS if re.search(r"(embed_tokens|lm_head|wte|embedding)\.weight$", path) else 1
        new.append((path, mx.array(gain * x / np.sqrt(fan_in(old.shape)).astype(np.float32))))
    drawn = dict(new)
    for path, module in model.named_modules():
        if hasattr(module, "head_k_dim"):
            shrink_first_head(module, drawn, path + ".conv1d.weight")
    return drawn


def shrink_first_head(module, drawn, conv):
    """Makes the first head's q and k so small that the epsilon of their norm counts: about
    3e-4 per element, whose squares sum up to 3e-6 in 32 elements."""
    factor = np.ones(drawn[conv].shape, np.float32)
    for start in (0, module.key_dim):
        factor[start:start + module.head_k_dim] = 1e-3
    drawn[conv] = drawn[conv] * mx.array(factor)


def initialize(model, config, seed):
    """Gives a model random weights as if they came from a checkpoint. A tied head is in no
    checkpoint, and some classes learn from that alone that it is tied."""
    drawn = draw(model, seed)
    if config.get("text_config", config).get("tie_word_embeddings"):
        drawn = {path: x for path, x in drawn.items() if not path.endswith("lm_head.weight")}
    if hasattr(model, "sanitize"):
        drawn = model.sanitize(drawn)
    model.load_weights(list(drawn.items()))


def pack(model, config, row, packing):
    """Packs the weights of a model. Returns the model and its config."""
    if packing == "float32":
        return model, config
    model.set_dtype(mx.bfloat16)
    if packing in ("bfloat16", "original", "fp8"):
        return model, config
    usual = getattr(model, "quant_predicate", None)
    hidden = config.get("text_config", config)["hidden_size"]
    group = 64 if hidden % 64 == 0 else 32
    if packing == "affine":
        return quantize_model(model, config, group, 4, mode="affine")
    if packing == "mxfp4":
        return quantize_model(model, config, 32, 4, mode="mxfp4")
    if packing == "mxfp8":
        return quantize_model(model, config, 32, 8, mode="mxfp8")
    if packing == "nvfp4":
        return quantize_model(model, config, 16, 4, mode="nvfp4")
    if packing == "mxfp4_experts":
        def experts(path, module):
            if any(part in path.split(".") for part in row.experts):
                return {"group_size": 32, "bits": 4, "mode": "mxfp4"}
            return False
        return quantize_model(model, config, 32, 4, mode="mxfp4", quant_predicate=experts)
    raise ValueError(f"unknown packing {packing}")


def original(model, tensors):
    """Returns tensors, with mlx-lm's names, in the layout of Qwen3-VL's originals: the matrices of
    experts are transposed, and gate and up are one tensor. mlx-lm must read the same from it."""
    new = {}
    for path, x in tensors.items():
        module, _, part = path.partition("switch_mlp.")
        if part == "gate_proj.weight":
            up = tensors[module + "switch_mlp.up_proj.weight"]
            path, x = module + "experts.gate_up_proj", mx.concatenate([x, up], axis=1)
        elif part == "down_proj.weight":
            path = module + "experts.down_proj"
        elif part:
            continue
        path = path.replace("language_model.model.", "model.language_model.")
        path = path.replace("language_model.lm_head.", "lm_head.")
        new[path] = x.swapaxes(1, 2) if part else x
    model.load_weights(list(model.sanitize(dict(new)).items()))
    return {path: mx.contiguous(x) for path, x in new.items()}


# The rows and columns of a block differ, so that the scales are in another order in the transpose.
FP8_BLOCK = (48, 32)
FP8_CONFIG = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
              "weight_block_size": list(FP8_BLOCK)}


def block_fp8(w):
    """Returns the codes of a matrix, the scales of its blocks, and its values."""
    (n, k), (rows, cols) = w.shape, FP8_BLOCK
    padded = mx.pad(w, ((0, -n % rows), (0, -k % cols)))
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // cols, cols)
    scales = mx.maximum(mx.abs(blocks).max(axis=(1, 3)) / 448, 1e-12)
    each = mx.repeat(mx.repeat(scales, rows, 0), cols, 1)[:n, :k]
    codes = mx.to_fp8(w / each)
    return codes, scales, mx.from_fp8(codes, mx.float32) * each


def fp8(model, tensors):
    """Returns tensors with their matrices in FP8, experts apart. The model gets their values."""
    new, values = {}, []
    for path, x in tensors.items():
        plain = ("embed_tokens.", "lm_head.", "mlp.gate.", "norm", "embed_q.", "unembed_out.")
        if x.ndim < 2 or x.shape[-1] % 32 or any(part in path for part in plain):
            new[path] = x
            continue
        stack = x.astype(mx.float32)
        packed = [block_fp8(w) for w in (stack if x.ndim == 3 else stack[None])]
        values.append((path, mx.stack([p[2] for p in packed]).reshape(x.shape)))
        for e, (codes, scales, _) in enumerate(packed):
            module = path.removesuffix("weight").replace("switch_mlp", f"experts.{e}")
            new[module + "weight"], new[module + "weight_scale_inv"] = codes, scales
    model.load_weights(values, strict=False)
    return new


def retype(file):
    """Makes bytes in a safetensors file FP8, which MLX has no type for."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = data[8:8 + size].replace(b'"dtype":"U8"', b'"dtype":"F8_E4M3"')
    file.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size:])


def make(name, row, variant, packing, folder, seed):
    """Writes a checkpoint to a folder and returns the model, which computes in float32."""
    config = config_of(name, row, variant, mlx=True)
    mx.random.seed(zlib.crc32(seed.encode()))
    model_class, args = _get_classes(config)
    model = model_class(args.from_dict(copy.deepcopy(config)))
    initialize(model, config, seed)
    model, config = pack(model, config, row, packing)
    tensors = {path.removeprefix(row.strip): x for path, x in tree_flatten(model.parameters())}
    if packing == "original":
        tensors = original(model, tensors)
    if packing == "fp8":
        tensors, config["quantization_config"] = fp8(model, tensors), FP8_CONFIG
    config["model_type"] = name
    if row.strip and "quantization" in config:
        config["quantization"] = {path.removeprefix(row.strip): x
                                  for path, x in config["quantization"].items()}
        config.pop("quantization_config", None)
    folder.mkdir(parents=True)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, metadata={"format": "mlx"})
    if packing == "fp8":
        retype(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    model.set_dtype(mx.float32)
    return model


def tokens(count, vocabulary, seed=1):
    """Random token ids."""
    return [int(t) for t in np.random.default_rng(seed).integers(0, vocabulary, count)]


def logits(model, ids):
    """The logits [len(ids), vocabulary] after each token, as mlx-lm computes a prompt."""
    return model(mx.array([ids]), cache=make_prompt_cache(model))[0].astype(mx.float32)


def logprobs(model, ids):
    x = logits(model, ids)
    return np.array(x - mx.logsumexp(x, axis=-1, keepdims=True))


def own_difference(model, ids, runs=4):
    """How much log-probabilities change if each weight changes by about one part in 16 million,
    which is how finely float32 represents it. The model keeps its weights."""
    rng, before, want, most = np.random.default_rng(0), model.parameters(), logprobs(model, ids), 0

    def changed(x):
        factor = 1 + 2.0**-24 * rng.standard_normal(x.shape)
        return x * mx.array(factor.astype(np.float32)) if x.dtype == mx.float32 else x

    for _ in range(runs):
        model.update(tree_map(changed, before))
        most = max(most, float(np.abs(logprobs(model, ids) - want).max()))
    model.update(before)
    return most


def byte_letters():
    """The letters by which byte-level BPE writes the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def tokenizer():
    """A tokenizer.json with a token for each byte, and <t256>, <t257> and so on."""
    added = [{"id": i, "content": f"<t{i}>", "special": False, "single_word": False,
              "lstrip": False, "rstrip": False, "normalized": False}
             for i in range(256, VOCABULARY)]
    return {
        "version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                          "use_regex": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {c: b for b, c in byte_letters().items()},
                  "merges": []},
    }


def token_id(text):
    """The id of a token, from its text in an answer."""
    if found := re.fullmatch(r"<t(\d+)>", text):
        return int(found[1])
    if found := re.fullmatch(r"bytes:\\x([0-9a-f]{2})", text):
        return int(found[1], 16)
    return ord(text)
