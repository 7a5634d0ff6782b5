"""Makes the tiny models of the table MODELS, with random bf16 weights and answers of mlx-lm in float32.

    pip install 'mlx[cpu]==0.32.4' mlx-lm==0.32.2
    python tiny.py NAME...
"""

import json
import sys
import zlib
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.utils import _get_classes

from mx import HERE, answers

BASE = {
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "vocab_size": 320,
}

# The keys that differ from BASE.
MODELS = {
    "llama_linear": {
        "model_type": "llama",
        "attention_bias": True,
        "mlp_bias": True,
        "rope_scaling": {"type": "linear", "factor": 4.0},
    },
    "llama_yarn": {
        "model_type": "llama",
        "head_dim": 48,
        "num_key_value_heads": 1,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "sliding_window": 11,
        "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64},
    },
    "llama_longrope": {
        "model_type": "llama",
        "tie_word_embeddings": True,
        "rope_scaling": {
            "rope_type": "longrope",
            "original_max_position_embeddings": 64,
            "short_factor": [1.0, 1.0, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0],
            "long_factor": [1.0, 1.1, 1.5, 2.0, 3.5, 6.0, 12.0, 30.0],
        },
    },
    "ministral3": {
        "model_type": "ministral3",
        "head_dim": 32,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        "sliding_window": 11,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 16.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 20,
            "llama_4_scaling_beta": 0.4,
        },
    },
    "olmo3": {
        "model_type": "olmo3",
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 4,
        "tie_word_embeddings": True,
        "sliding_window": 11,
        "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64},
    },
    "phi3": {
        "model_type": "phi3",
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "original_max_position_embeddings": 64,
        "partial_rotary_factor": 0.75,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0 + i / 8 for i in range(12)],
            "long_factor": [1.0 + i * i / 4 for i in range(12)],
        },
    },
    "qwen2": {
        "model_type": "qwen2",
        "num_attention_heads": 2,
        "num_hidden_layers": 4,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
    },
}


def random_weights(model):
    """Gives each projection outputs of about size 1, and queries and keys of size 2."""
    weights = []
    for name, w in tree_flatten(model.parameters()):
        x = mx.random.normal(w.shape)
        if name.endswith("norm.weight"):
            x = 1 + 0.1 * x
        elif name.endswith("bias"):
            x = 0.5 * x
        elif not name.endswith("embed_tokens.weight"):
            x = x * (2 if name.split(".")[-2] in ("q_proj", "k_proj", "qkv_proj", "lm_head") else 1)
            x = x / w.shape[-1] ** 0.5
        weights.append((name, x.astype(mx.bfloat16)))
    model.update(tree_unflatten(weights))


def make(name):
    config = BASE | MODELS[name]
    mx.random.seed(zlib.crc32(name.encode()))
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(json.loads(json.dumps(config))))
    random_weights(model)
    out = HERE / name
    out.mkdir(exist_ok=True)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(out / "model.safetensors"), weights, metadata={"format": "mlx"})
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (out / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}) + "\n")

    model.set_dtype(mx.float32)
    prompts = [x["ids"] for x in json.loads((HERE / "qwen3" / "expected.json").read_text())]
    (out / "expected.json").write_text(json.dumps([answers(model, ids) for ids in prompts]))


mx.set_default_device(mx.cpu)
for name in sys.argv[1:]:
    make(name)
