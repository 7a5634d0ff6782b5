"""Makes the tiny models of the table MODELS with Hugging Face transformers: random bf16 weights in the layout of the
originals, and answers in float32.

    pip install torch==2.15.0 transformers==5.23.0
    python tiny_hf.py NAME...
"""

import json
import sys
import zlib
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).parent / "tiny"
GREEDY = 24

LFM2 = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 4,
    "layer_types": ["conv", "conv", "full_attention", "conv"],
    "max_position_embeddings": 2048,
    "vocab_size": 320,
}

GRANITE4 = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "shared_intermediate_size": 96,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 4,
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "max_position_embeddings": 2048,
    "vocab_size": 320,
    "embedding_multiplier": 2.0,
    "attention_multiplier": 0.06,
    "residual_multiplier": 0.7,
    "logits_scaling": 0.5,
    "mamba_n_heads": 4,
    "mamba_d_head": 32,
    "mamba_n_groups": 1,
    "mamba_d_state": 32,
    "mamba_expand": 2,
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "tie_word_embeddings": True,
    "position_embedding_type": "nope",
}

# The experts of DeepSeek-V3 and GLM, and small latents.
LATENT = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "moe_intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "q_lora_rank": 32,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 48,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "max_position_embeddings": 2048,
    "vocab_size": 320,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}

MODELS = {
    "deepseek_v3_original": ("deepseek_v3", LATENT | {
        "first_k_dense_replace": 1,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "mscale": 0.8, "mscale_all_dim": 1.2,
                            "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1},
    }),
    "ernie4_5_moe_original": ("ernie4_5_moe", {
        "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
        "rope_theta": 5e5, "tie_word_embeddings": True, "use_bias": False, "moe_num_experts": 8, "moe_k": 3,
        "moe_intermediate_size": 32, "moe_num_shared_experts": 1, "moe_layer_start_index": 1,
    }),
    "glm4_moe_lite_original": ("glm4_moe_lite", LATENT | {
        "n_group": 1,
        "topk_group": 1,
        "mlp_layer_types": ["dense", "sparse"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }),
    "granitemoehybrid": ("granitemoehybrid", GRANITE4),
    "granitemoehybrid_moe": ("granitemoehybrid", GRANITE4 | {
        "intermediate_size": 32,
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
    }),
    "lfm2": ("lfm2", LFM2 | {"intermediate_size": 150, "block_multiple_of": 32}),
    "lfm2_moe": ("lfm2_moe", LFM2 | {
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "num_dense_layers": 1,
        "num_experts": 8,
        "num_experts_per_tok": 3,
    }),
}


def random_weights(model):
    """Gives each projection outputs of about size 1, queries and keys of size 2, and logits of size 3."""
    for name, w in model.state_dict().items():
        x = torch.randn(w.shape)
        if name.endswith("norm.weight"):
            x = 1 + 0.1 * x
        elif name.endswith(("A_log", "dt_bias", ".D")):
            x = 0.5 * x
        elif name.endswith("bias"):
            x = 0.2 * x
        elif name.endswith("embed_tokens.weight") or name == "lm_head.weight":
            x = x * 3 / w.shape[-1] ** 0.5
        else:
            x = x * (2 if name.split(".")[-2] in ("q_proj", "k_proj") else 1) / w.shape[-1] ** 0.5
        w.copy_(x.to(torch.bfloat16))


def answers(model, ids):
    logits = lambda tokens: model(torch.tensor([tokens]), use_cache=False).logits[0].float()
    each = logits(ids)
    greedy, gaps, tokens, row = [], [], list(ids), each[-1]
    for _ in range(GREEDY):
        first, second = torch.topk(row, 2).values.tolist()
        gaps.append(first - second)
        greedy.append(row.argmax().item())
        tokens.append(greedy[-1])
        row = logits(tokens)[-1]
    return {
        "ids": ids,
        "last_logits": [round(x, 5) for x in each[-1].tolist()],
        "argmax_each": each.argmax(-1).tolist(),
        "greedy_ids": greedy,
        "smallest_gap": round(min(gaps), 5),
    }


@torch.no_grad()
def make(name):
    model_type, keys = MODELS[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **keys)).to(torch.bfloat16).eval()
    for buffer in ("expert_bias", "e_score_correction_bias"):  # which the originals have in float32
        for module in model.modules():
            if hasattr(module, buffer):
                bias = getattr(module, buffer)
                bias.data = bias.data.float()
    random_weights(model)
    out = HERE / name
    model.save_pretrained(out)
    (out / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}) + "\n")
    # Loaded again, so that the answers are those of the files.
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
    prompts = [x["ids"] for x in json.loads((HERE / "qwen3" / "expected.json").read_text())]
    (out / "expected.json").write_text(json.dumps([answers(model, ids) for ids in prompts]))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        make(name)
