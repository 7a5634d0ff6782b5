"""Compares adapters with mlx-lm and PEFT's formula: `make oracle ARGS=--adapters`, for a part with
TYPES.

Each row of table.py gets random adapters by mlx-lm's own functions: LoRA and DoRA on every module
of its layers that mlx-lm can adapt, and on the embedding and the head, and LoRA on a part of the
layers with a part of the modules. mlx-lm has no DoRA of experts, nor of packed embeddings. They are
saved as mlx_lm.lora saves them. The LoRA of matrices is also written in PEFT's format, with another
alpha and rank for the same product. mlx-lm and `headroom
serve --adapter` must agree, as in oracle.py, and the adapter must change the answer. The model
that `headroom fuse` writes must agree, too.

`make oracle ARGS=--golden-adapters` writes engine/testdata/adapters: adapters of tiny models with
the log-probabilities that mlx-lm computes.
"""

import json
import shutil
import subprocess
import time
import zlib
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.tuner.dora import DoRAEmbedding, DoRALinear
from mlx_lm.tuner.lora import LoRAEmbedding, LoRALinear, LoRASwitchLinear
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

import server
import weights

SCALE = 2.5
KINDS = ("lora", "peft", "dora", "embedding", "dora_embedding", "part")
# Modules whose matrices Headroom has in another form, so that it refuses an adapter of them.
REFUSED = ("embed_q", "unembed_out", "kv_b_proj", "in_proj_qkvz", "in_proj_ba", "conv")
# The kinds that are also fused, and the packing of the model. An embedding that is the head, too,
# and experts are among them.
FUSED = {"lora": "float32", "peft": "affine", "dora": "affine", "embedding": "float32",
         "dora_embedding": "float32"}
# mlx-lm's names of modules that hold an adapter.
LAYERS = (LoRALinear, LoRASwitchLinear, LoRAEmbedding, DoRALinear, DoRAEmbedding)


# The goldens: model of engine/models/testdata/tiny, kind of adapter.
GOLDENS = (("mistral", "lora"), ("mistral", "peft"), ("mistral", "part"), ("qwen3", "dora"),
           ("qwen3", "embedding"), ("qwen3", "dora_embedding"), ("gemma3_text", "dora_embedding"),
           ("olmoe", "lora"), ("phi3", "lora"), ("gemma", "lora"))
GOLDEN = Path(__file__).resolve().parents[3] / "engine/testdata/adapters"
TINY = Path(__file__).resolve().parents[3] / "engine/models/testdata/tiny"


def keys_of(model, kind):
    """The keys of lora_parameters: paths relative to a layer, or to the model."""
    import mlx.nn as nn
    from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear
    plain, stacks = (nn.Linear, nn.QuantizedLinear), (SwitchLinear, QuantizedSwitchLinear)
    keys = set()
    for layer in model.layers:
        for path, module in layer.named_modules():
            if any(part in REFUSED for part in path.split(".")):
                continue
            if isinstance(module, plain) or kind in ("lora", "part") and isinstance(module, stacks):
                keys.add(path)
    if kind == "part":
        keys = {key for i, key in enumerate(sorted(keys)) if i % 2 == 0}
    if kind.endswith("embedding"):
        keys = {path for path, module in model.named_modules()
                if path.split(".")[-1] in ("embed_tokens", "lm_head") and
                isinstance(module, (*plain, nn.Embedding, nn.QuantizedEmbedding))}
    return sorted(keys)


def adapt(model, kind, seed, rank=8, most=1000):
    """Gives at most the last layers of the model a random adapter. Returns its config and its
    tensors."""
    layers = min(len(model.layers), most)
    if kind == "part":
        rank, layers = 5, max(1, layers // 2)
    parameters = {"rank": rank, "scale": SCALE, "dropout": 0.0, "keys": keys_of(model, kind)}
    linear_to_lora_layers(model, layers, parameters, use_dora=kind.startswith("dora"))
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    for _, module in model.named_modules():
        if not isinstance(module, LAYERS):
            continue
        for name in ("lora_a", "lora_b"):
            x = rng.standard_normal(getattr(module, name).shape).astype(np.float32)
            if name == "lora_a" and not isinstance(module,
                                                       (LoRAEmbedding, DoRAEmbedding)):
                fan = x.shape[-1] if x.ndim == 3 else x.shape[0]
                x /= np.sqrt(fan)
            else:
                x *= 0.15 / np.sqrt(rank)
            setattr(module, name, mx.array(x))
        if "m" in module:
            module.m = module.m.astype(mx.float32) * mx.array(
                1 + 0.2 * rng.standard_normal(module.m.shape).astype(np.float32))
    model.eval()
    config = {"fine_tune_type": "dora" if kind.startswith("dora") else "lora", "num_layers": layers,
              "lora_parameters": parameters, "model": "random"}
    tensors = {path: x for path, x in tree_flatten(model.parameters())
               if path.rsplit(".", 1)[-1] in ("lora_a", "lora_b", "m")}
    return config, tensors


def write_mlx(folder, config, tensors):
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    mx.save_safetensors(str(folder / "adapters.safetensors"), tensors)


def write_peft(folder, config, tensors):
    """Writes the same LoRA as PEFT does: alpha/rank is half the scale, and B is twice as large."""
    folder.mkdir()
    rank = config["lora_parameters"]["rank"]
    new = {}
    for path, x in tensors.items():
        module, part = path.rsplit(".", 1)
        if part == "lora_a":
            new[f"base_model.model.{module}.lora_A.weight"] = mx.contiguous(x.T)
        elif part == "lora_b":
            new[f"base_model.model.{module}.lora_B.weight"] = mx.contiguous(2 * x.T)
    mx.save_safetensors(str(folder / "adapter_model.safetensors"), new)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": rank * SCALE / 2, "bias": "none",
         "base_model_name_or_path": "random", "use_dora": False}) + "\n")


def check(name, row, packing, kind, folder, headroom, compare, prompt):
    """Compares one adapter. Returns the largest difference, and how much the adapter changes."""
    title = f"{name} {packing} {kind}"
    shutil.rmtree(folder, ignore_errors=True)
    model = weights.make(name, row, row.variants[0], packing, folder, seed=title)
    ids = weights.tokens(prompt, {**row.base, **row.variants[0]}["vocab_size"])
    plain = weights.logprobs(model, ids)
    config, tensors = adapt(model, kind, title)
    want = weights.logprobs(model, ids)
    if not tensors:
        return 0.0, 1.0
    write = write_peft if kind == "peft" else write_mlx
    write(folder / "adapter", config, tensors)
    difference = 0.0
    fused = folder / "fused"
    runs = [(folder, ("--adapter", str(folder / "adapter")))]
    if FUSED.get(kind) == packing:
        subprocess.run([headroom, "fuse", str(folder), str(folder / "adapter"), str(fused),
                        "--dtype", "float32"], check=True, capture_output=True)
        runs.append((fused, ()))
    for model_folder, flags in runs:
        with server.Server(headroom, model_folder, context=len(ids) + 2, flags=flags) as s:
            reply = s.complete({"prompt": ids, "echo": True, "logprobs": 20, "max_tokens": 1,
                                "temperature": 0})
        difference = max(difference, compare(reply, ids, want)[0])
    tolerance = row.tolerance
    if tolerance < difference < float("inf"):
        tolerance = max(tolerance, 2 * weights.own_difference(model, ids))
    return difference / tolerance * row.tolerance, float(np.abs(want - plain).max())


def write_goldens():
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir(parents=True)
    for name, kind in GOLDENS:
        model, _ = load_model(TINY / name)
        model.set_dtype(mx.float32)
        ids = weights.tokens(40, 320)
        reference = json.loads((TINY / name / "expected.json").read_text())[0]
        got = weights.logits(model, reference["ids"])[-1]
        if float(mx.abs(got - mx.array(reference["last_logits"])).max()) > 1e-3:
            raise SystemExit(f"oracle: mlx-lm computes {name} in another way than its golden")
        plain = weights.logprobs(model, ids)
        config, tensors = adapt(model, kind, name + kind, rank=4, most=2)
        want, folder = weights.logprobs(model, ids), GOLDEN / f"{name}_{kind}"
        (write_peft if kind == "peft" else write_mlx)(folder, config, tensors)
        (folder / "expected.json").write_text(json.dumps({
            "model": name, "ids": ids,
            "logprobs": [round(float(want[i, t]), 5) for i, t in enumerate(ids[1:])],
            "change": round(float(np.abs(want - plain).max()), 3)}) + "\n")
        print(f"{folder}: {sum(f.stat().st_size for f in folder.iterdir())} bytes")


def run(types, table, headroom, folder, compare, prompt):
    """Compares all kinds of adapters of the given rows. Returns the titles of failures."""
    failed = []
    for name in types:
        row, begun, worst, count = table[name], time.time(), 0.0, 0
        packings = [p for p in ("float32", "affine") if p in row.packings] or row.packings[:1]
        for packing in packings:
            for kind in KINDS:
                if kind == "dora_embedding" and packing != "float32":
                    continue
                title = f"{name} {packing} {kind}"
                at = Path(folder) / title.replace(" ", "-")
                try:
                    difference, change = check(name, row, packing, kind, at, headroom, compare,
                                               prompt)
                except (server.Failed, ValueError) as err:
                    difference, change = float("inf"), 1
                    print(f"  {title}: {err}")
                count, worst = count + 1, max(worst, difference)
                if not difference <= row.tolerance or change < 0.05:
                    failed.append(title)
                    print(f"  {title}: FAILED, the log-probabilities differ by {difference:.3g}, "
                          f"the adapter changes them by {change:.3g}")
                shutil.rmtree(at, ignore_errors=True)
        print(f"{name:20} {count:3} adapters, largest difference {worst:.1e}, "
              f"{time.time() - begun:.1f} s")
    return failed
