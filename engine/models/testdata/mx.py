"""Makes the models of MODELS, in mxfp4 and mxfp8, from others in tiny: MLX packs them, and answers in float32.

    pip install 'mlx[cpu]==0.32.4' mlx-lm==0.32.2
    python mx.py NAME...

Each has exceptions, as published mixes do: gates of experts in 8 bits, one matrix in 6 bits with the mode said, one left plain.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model, quantize_model

HERE = Path(__file__).parent / "tiny"

# Of each model: its source, its packing, the matrix in 6 bits, and the one left plain.
MODELS = {
    "qwen3_mxfp4": ("qwen3", "mxfp4", "layers.1.mlp.down_proj", "layers.2.self_attn.v_proj"),
    "qwen3_5_moe_mxfp4": ("qwen3_5_moe_text", "mxfp4", "layers.2.linear_attn.out_proj", "layers.1.linear_attn.in_proj_b"),
    "gpt_oss_mxfp4": ("gpt_oss", "mxfp4", "layers.2.self_attn.o_proj", "layers.1.self_attn.v_proj"),
    "gpt_oss_mxfp8": ("gpt_oss", "mxfp8", "layers.2.self_attn.o_proj", "layers.1.self_attn.v_proj"),
}

GREEDY = 24


def fused(weights):
    """Joins experts that lie apart as transformers 5 does: gate and up in one stack, down in another."""
    out = {k: v for k, v in weights.items() if ".experts." not in k}
    for prefix in sorted({k.split(".experts.")[0] for k in weights if ".experts." in k}):
        count = len({k for k in weights if k.startswith(f"{prefix}.experts.") and k.endswith("down_proj.weight")})
        stack = lambda part: mx.stack([weights[f"{prefix}.experts.{e}.{part}.weight"] for e in range(count)])
        if count == 0:  # gpt_oss: stacks [experts, in, out], but MLX reads those of the original, [experts, out, in]
            for part in ("gate_up_proj", "down_proj"):
                out[f"{prefix}.experts.{part}.weight"] = weights[f"{prefix}.experts.{part}"].swapaxes(1, 2)
                out[f"{prefix}.experts.{part}_bias"] = weights[f"{prefix}.experts.{part}_bias"]
            continue
        out[f"{prefix}.experts.gate_up_proj"] = mx.concatenate([stack("gate_proj"), stack("up_proj")], axis=1)
        out[f"{prefix}.experts.down_proj"] = stack("down_proj")
    return out


def answers(model, ids):
    cache = make_prompt_cache(model)
    logits = model(mx.array([ids]), cache=cache)[0].astype(mx.float32)
    each, last = mx.argmax(logits, axis=-1).tolist(), logits[-1]
    greedy, gaps = [], []
    row = last
    for _ in range(GREEDY):
        top = mx.sort(row)[-2:].tolist()
        gaps.append(top[1] - top[0])
        greedy.append(mx.argmax(row).item())
        row = model(mx.array([[greedy[-1]]]), cache=cache)[0, -1].astype(mx.float32)
    return {
        "ids": ids,
        "last_logits": [round(x, 5) for x in last.tolist()],
        "argmax_each": each,
        "greedy_ids": greedy,
        "smallest_gap": round(min(gaps), 5),
    }


def make(target):
    source, mode, six, plain = MODELS[target]
    config = json.loads((HERE / source / "config.json").read_text())
    if "num_experts" in config:  # the form that MLX publishes
        config = {"model_type": "qwen3_5_moe", "text_config": config, "tie_word_embeddings": False}
    if config["model_type"] == "gpt_oss":  # keys of transformers 4, which mlx-lm reads; its YaRN always truncates
        config["rope_scaling"] = config.pop("rope_parameters") | {"truncate": True}
        config["rope_theta"] = config["rope_scaling"].pop("rope_theta")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "config.json").write_text(json.dumps(config))
        mx.save_safetensors(str(folder / "model.safetensors"), fused(mx.load(str(HERE / source / "model.safetensors"))))
        model, config = load_model(folder)
    usual = getattr(model, "quant_predicate", None)

    def predicate(path, module):
        if path.endswith(six):
            return {"group_size": 64, "bits": 6, "mode": "affine"}
        if path.endswith(plain):
            return False
        return usual(path, module) if usual else True

    model, config = quantize_model(model, config, None, None, mode=mode, quant_predicate=predicate)
    out = HERE / target
    out.mkdir(exist_ok=True)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(out / "model.safetensors"), weights, metadata={"format": "mlx"})
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    shutil.copy(HERE / source / "generation_config.json", out)

    model.set_dtype(mx.float32)
    prompts = [x["ids"] for x in json.loads((HERE / source / "expected.json").read_text())]
    (out / "expected.json").write_text(json.dumps([answers(model, ids) for ids in prompts]))


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    for name in sys.argv[1:]:
        make(name)
