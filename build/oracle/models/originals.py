"""Compares Headroom with Hugging Face transformers on checkpoints in the layout of the originals:
`make oracle ARGS=--originals`, for a part with TYPES.

The models are those of the rows, made by the classes of transformers with random weights and saved
as bfloat16 by save_pretrained. PyTorch is not in requirements.txt: install torch==2.15.0 into the
virtual environment. Types that transformers does not have are left out.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import server
import weights

# Keys that transformers reads in another form, or that mlx-lm cannot compare. None leaves one out.
CHANGED = {
    "afmoe": {"route_norm": True},  # transformers always does
    "exaone4": {"sliding_window_pattern": None},
    "falcon_h1": {"key_multiplier": 0.4, "attention_in_multiplier": 1.3,
                  "attention_out_multiplier": 0.8, "ssm_in_multiplier": 1.2,
                  "ssm_out_multiplier": 0.7, "ssm_multipliers": [0.5, 1.5, 0.7, 1.3, 0.8],
                  "mlp_multipliers": [0.8, 1.4]},
    "glm": {"pad_token_id": 0, "partial_rotary_factor": 0.5},
    "glm4": {"pad_token_id": 0},
    "solar_open": {"rope_scaling": {
        "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 64}},
    # transformers limits steps to at least time_step_min, and mlx-lm as time_step_limit says.
    "nemotron_h": {"num_hidden_layers": None, "attention_bias": False, "time_step_limit": None,
                   "time_step_min": 1e-9},
}
# The vision config of a multimodal type, whose keys are those of its text_config.
VISION = {"muse_glimmer": {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
                           "num_attention_heads": 2}}
# The numbers of variants that transformers does not have.
LACKING = {"ernie4_5_moe": (1, 2), "hunyuan_v1_dense": (1,), "minimax_m2": (1,)}


def keys_of(name, row, variant):
    """The keys of a variant for the config of transformers."""
    keys = {**row.base, **variant, **CHANGED.get(name, {})}
    keys = {k: v for k, v in keys.items() if v is not None}
    pattern = {"L": "sliding_attention", "G": "full_attention"}
    if letters := variant.get("sliding_window_pattern"):
        count = keys["num_hidden_layers"]
        keys["layer_types"] = [pattern[letters[i % len(letters)]] for i in range(count)]
    keys["hidden_act"] = keys.get("hidden_act", "silu").replace("gelu_pytorch_tanh", "gelu_new")
    if keys["hidden_act"] != "gelu_new" or name != "gemma":
        keys.pop("hidden_act")
    return keys


@torch.no_grad()
def randomize(model, seed):
    """Draws weights as weights.py does."""
    torch.manual_seed(seed)
    for name, w in [*model.named_parameters(), *model.named_buffers()]:
        x = torch.randn(w.shape)
        if "inv_freq" in name:
            continue
        if w.dim() < 2 or "e_score" in name:
            w.copy_((w.float() + 0.2 * x).to(torch.bfloat16))
            continue
        gain = weights.LOGITS if "embed" in name or "lm_head" in name else 1
        w.copy_((gain * x / weights.fan_in(tuple(w.shape)) ** 0.5).to(torch.bfloat16))


@torch.no_grad()
def check(name, row, variant, folder, headroom, compare, ids):
    """Returns the largest difference and its position, or None if transformers lacks the type."""
    if name not in CONFIG_MAPPING:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    keys, auto = keys_of(name, row, variant), AutoModelForCausalLM
    if name in VISION:
        auto = AutoModelForImageTextToText
        keys = {"text_config": keys, "vision_config": VISION[name],
                "tie_word_embeddings": keys["tie_word_embeddings"]}
    config = AutoConfig.for_model(name, **keys)
    model = auto.from_config(config).to(torch.bfloat16).eval()
    randomize(model, len(name))
    model.save_pretrained(folder)
    Path(folder, "tokenizer.json").write_text(json.dumps(weights.tokenizer()))
    model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    rows = model(torch.tensor([ids]), use_cache=False).logits[0].float()
    want = np.array(torch.log_softmax(rows, -1))
    with server.Server(headroom, folder, context=len(ids) + 2) as s:
        reply = s.complete({"prompt": ids, "echo": True, "logprobs": 20, "max_tokens": 1,
                            "temperature": 0})
    return compare(reply, ids, want)


def run(types, rows, headroom, folder, compare, tokens):
    """Compares every variant. Returns the titles of failures."""
    failed, compared = [], 0
    for name in types:
        for number, variant in enumerate(rows[name].variants):
            title = f"{name} {number} original"
            if number in LACKING.get(name, ()):
                continue
            ids = weights.tokens(tokens, {**rows[name].base, **variant}["vocab_size"])
            try:
                found = check(name, rows[name], variant, Path(folder) / title.replace(" ", "-"),
                              headroom, compare, ids)
            except (server.Failed, ValueError) as err:
                print(f"{title}: FAILED, {err}")
                failed.append(title)
                continue
            if not found:
                print(f"{name}: transformers does not have it")
                break
            compared += 1
            print(f"{title}: largest difference {found[0]:.1e}", flush=True)
            if not found[0] <= rows[name].tolerance:
                failed.append(title)
    if not compared and not failed:
        failed.append("transformers has none of these types: nothing was compared")
    return failed
