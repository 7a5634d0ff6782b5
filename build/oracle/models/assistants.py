"""Writes a random assistant of Gemma 4 and what it drafts, for `make test`; called by blocks.py.

The drafter is mlx-vlm's class, and the model is mlx-lm's, in float32. The assistant is that of
engine/models/testdata/tiny/gemma4_text_affine, with the head for all tokens (plain) and with
clusters. Each fault of FAULTS must change some logit of the first draft by 0.1 or more.
"""

import json
import shutil

import mlx.core as mx
from mlx_lm.models.cache import KVCache
from mlx_lm.utils import load_model

import golden
import weights

OUT = golden.TINY.parent / "assistant"
LENGTHS = (2, 5, 40, 150)  # the window is 33
STEPS = 3
EVERY = 16  # of how many logits one is stored
FAULTS = ("the position after the last token", "the hidden state before the norm",
          "the halves of the input are swapped", "the keys of the other layer")
TEXT = {
    "attention_k_eq_v": True, "enable_moe_block": False, "final_logit_softcapping": None,
    "global_head_dim": 64, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 32, "hidden_size_per_layer_input": 0, "intermediate_size": 48,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "max_position_embeddings": 2048, "model_type": "gemma4_text", "num_attention_heads": 4,
    "num_global_key_value_heads": 1, "num_hidden_layers": 3, "num_key_value_heads": 2,
    "num_kv_shared_layers": 3, "rms_norm_eps": 1e-06,
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6,
                           "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}},
    "sliding_window": 33, "tie_word_embeddings": True, "use_double_wide_mlp": False,
    "vocab_size": 320, "vocab_size_per_layer_input": 0,
}
CONFIG = {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant",
          "backbone_hidden_size": 64, "use_ordered_embeddings": False, "num_centroids": 20,
          "centroid_intermediate_top_k": 4, "tie_word_embeddings": True, "text_config": TEXT}


def make(ordered):
    try:
        from mlx_vlm.speculative.drafters.gemma4_assistant import Model, ModelConfig
    except ImportError:
        raise SystemExit("oracle: the assistant of Gemma 4 needs mlx-vlm: pip install "
                         "mlx-vlm==0.7.10 in the virtual environment") from None

    config = {**CONFIG, "use_ordered_embeddings": ordered}
    drafter = Model(ModelConfig.from_dict(json.loads(json.dumps(config))))
    drawn = {k: v.astype(mx.bfloat16) for k, v in weights.draw(drafter, "assistant").items()}
    if ordered:
        mx.random.seed(5)
        drawn["masked_embedding.token_ordering"] = mx.random.permutation(320).astype(mx.int32)
    return config, drafter, drawn


def write():
    model, _ = load_model(golden.TINY / "gemma4_text_affine", lazy=False)
    model.set_dtype(mx.float32)
    plain = None
    for name, ordered in (("plain", False), ("clusters", True)):
        config, drafter, drawn = make(ordered)
        if ordered:  # the other weights are those of plain
            drawn.update(plain)
        plain = plain or drawn
        drafter.load_weights([(k, v.astype(mx.float32) if v.dtype == mx.bfloat16 else v)
                              for k, v in drawn.items()])
        out = OUT / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        stored = {k: v for k, v in drawn.items() if not ordered or k not in plain}
        mx.save_safetensors(str(out / f"model-{name}.safetensors"), stored,
                            metadata={"format": "mlx"})
        (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        prompts = [weights.tokens(n, 320, seed=n) for n in LENGTHS]
        drafts = [draft(model, drafter, ids) for ids in prompts]
        differ = [max(difference(d, draft(model, drafter, d["ids"], fault)) for d in drafts)
                  for fault in FAULTS]
        print("assistant,", name, sum(f.stat().st_size for f in out.iterdir()),
              "bytes, faults change", [round(d, 2) for d in differ])
        if min(differ) < 0.1:
            raise SystemExit("oracle: the numbers of the assistant do not show every fault")
        (out / "expected.json").write_text(json.dumps(drafts, separators=(",", ":")) + "\n")


def draft(model, drafter, ids, fault=""):
    """What the assistant drafts greedily after ids, whose last token the model has not computed."""
    inner = model.model
    cache, known = [KVCache() for _ in inner.layers], len(ids) - 1
    norm, hidden = inner.norm, None
    if fault == FAULTS[1]:
        inner.norm = lambda x: x
    hidden = inner(mx.array([ids[:-1]]), cache=cache)[:, -1:]
    inner.norm = norm
    shared = {kind: [x[..., :known, :] for x in (c.keys, c.values)]
              for kind, c in zip(model.args.layer_types, cache)}
    if fault == FAULTS[3]:
        c = cache[0]
        shared["sliding_attention"] = [x[..., :known, :] for x in (c.keys, c.values)]
    drafter.reset(model)
    drafter.set_shared_kv(shared, known, position=known - (fault != FAULTS[0]), kv_valid_len=known)
    token, steps = ids[-1], []
    for _ in range(STEPS):
        embedding = drafter._input_embed(mx.array([[token]])) * drafter._input_embed_scale
        both = [embedding, hidden]
        if fault == FAULTS[2]:
            both.reverse()
        hidden, logits = drafter(mx.concatenate(both, axis=-1), shared,
                                 mx.array([[drafter._position]]))
        row = logits[0, -1].astype(mx.float32)
        masked = row.min().item() if drafter.masked_embedding is not None else float("-inf")
        second, first = mx.sort(row)[-2:].tolist()
        token = mx.argmax(row).item()
        steps.append({"token": token, "gap": round(first - second, 4),
                      "logits": [None if x == masked else round(x, 4)
                                 for x in row[::EVERY].tolist()]})
    return {"ids": ids, "steps": steps}


def difference(want, got):
    """The largest difference of a logit at the first draft."""
    return max(abs((a or 0) - (b or 0)) for a, b in zip(want["steps"][0]["logits"],
                                                        got["steps"][0]["logits"]))
