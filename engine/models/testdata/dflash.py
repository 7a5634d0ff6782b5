"""Writes dflash/qwen3_5_text: a DFlash drafter with random bf16 weights for the tiny model of that name, and what it
drafts after some prompts, by mlx-vlm in float32: as it is, and with other keys in its config.json.

    pip install 'mlx[cpu]==0.32.4' mlx-vlm==0.7.10
    python dflash.py
"""

import json
import pathlib

import mlx.core as mx
from mlx_vlm.models.qwen3_5.config import TextConfig
from mlx_vlm.models.qwen3_5.language import LanguageModel
from mlx_vlm.speculative.drafters.qwen3_dflash.config import DFlashConfig
from mlx_vlm.speculative.drafters.qwen3_dflash.dflash import DFlashDraftModel

HERE = pathlib.Path(__file__).parent
TARGET, OUT = HERE / "tiny" / "qwen3_5_text", HERE / "dflash" / "qwen3_5_text"
SHIFTED = ("input_layernorm.weight", "post_attention_layernorm.weight", "q_norm.weight", "k_norm.weight")

CONFIG = {
    "architectures": ["DFlashDraftModel"],
    "attention_bias": False,
    "block_size": 8,
    "dflash_config": {"mask_token_id": 319, "target_layer_ids": [1, 3, 6]},
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 96,
    "layer_types": ["full_attention", "full_attention"],
    "max_position_embeddings": 2048,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_target_layers": 8,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "vocab_size": 320,
}

# The keys of dflash_config and of config.json that differ. A window is shorter than the longest prompts.
VARIANTS = {
    "as it is": ({}, {}),
    "causal": ({"causal": True}, {}),
    "causal with windows": ({"causal": True}, {"layer_types": ["sliding_attention", "full_attention"],
                                               "sliding_window": 24}),
}


def target():
    config = json.loads((TARGET / "config.json").read_text())
    model = LanguageModel(TextConfig.from_dict(config), None)
    weights = {}
    for name, w in mx.load(str(TARGET / "model.safetensors")).items():
        w = w.astype(mx.float32)
        if name.endswith("conv1d.weight"):
            w = w.moveaxis(2, 1)
        if name.endswith(SHIFTED) or name == "model.norm.weight":
            w = w + 1  # stored zero-centred
        weights[name] = w
    model.load_weights(list(weights.items()), strict=True)
    return model


def random_weights():
    mx.random.seed(7)
    hidden, heads, out = CONFIG["hidden_size"], 4 * 32, {}

    def add(name, *shape):
        x = mx.random.normal(shape)
        x = 1 + 0.1 * x if len(shape) == 1 else 1.5 * x / shape[1] ** 0.5
        if name.endswith("q_norm"):
            x = 4 * x  # else all rows of a block would attend alike, and draft the same token
        out[name + ".weight"] = x.astype(mx.bfloat16)

    add("fc", hidden, 3 * hidden)
    add("hidden_norm", hidden)
    add("norm", hidden)
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"layers.{i}."
        add(layer + "input_layernorm", hidden)
        add(layer + "post_attention_layernorm", hidden)
        add(layer + "self_attn.q_proj", heads, hidden)
        add(layer + "self_attn.k_proj", heads // 2, hidden)
        add(layer + "self_attn.v_proj", heads // 2, hidden)
        add(layer + "self_attn.o_proj", hidden, heads)
        add(layer + "self_attn.q_norm", 32)
        add(layer + "self_attn.k_norm", 32)
        add(layer + "mlp.gate_proj", 96, hidden)
        add(layer + "mlp.up_proj", 96, hidden)
        add(layer + "mlp.down_proj", hidden, 96)
    return out


def main():
    mx.set_default_device(mx.cpu)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    weights = random_weights()
    mx.save_safetensors(str(OUT / "model.safetensors"), weights, {"format": "pt"})
    model = target()
    prompts = [x["ids"] for x in json.loads((TARGET / "expected.json").read_text())]
    out = []
    for variant, (inner, outer) in VARIANTS.items():
        config = {**CONFIG, **outer, "dflash_config": {**CONFIG["dflash_config"], **inner}}
        drafter = DFlashDraftModel(DFlashConfig.from_dict(config)).bind(model)
        drafter.load_weights([(k, v.astype(mx.float32)) for k, v in weights.items()], strict=False)
        for number, ids in enumerate(prompts[:6]):
            if len(ids) < 3:
                continue
            hidden = []
            model.model(mx.array([ids[:-1]]), cache=model.make_cache(),
                        capture_layer_ids=CONFIG["dflash_config"]["target_layer_ids"], hidden_sink=hidden)
            for drafts in (1, 4, 7):
                block = mx.array([[ids[-1]] + [319] * drafts])
                logits = drafter(block, mx.concatenate(hidden, -1), drafter.make_cache())[0, 1:]
                best = [mx.argsort(-row)[:2].tolist() for row in logits]
                out.append({"variant": variant, "keys": {**outer, "dflash_config": config["dflash_config"]},
                            "prompt": number, "drafts": [
                    {"token": b[0], "logit": round(row[b[0]].item(), 4), "second": round(row[b[1]].item(), 4)}
                    for b, row in zip(best, logits)]})
    (OUT / "expected.json").write_text("[\n" + ",\n".join(json.dumps(x) for x in out) + "\n]\n")


if __name__ == "__main__":
    main()
