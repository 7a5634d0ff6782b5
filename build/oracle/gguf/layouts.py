"""Architectures whose files are no copy of the original's tensors: small originals with random
weights, in Hugging Face's layout, and the files that llama.cpp's conversion makes of them.

Each function returns an Original. `hf` has its tensors by name, and `gguf` those of the file. The
changes in between are those of llama.cpp's conversion/qwen.py, deepseek.py and gpt_oss.py, written
anew in numpy.
"""

import json
from dataclasses import dataclass, field

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import files

HIDDEN, HEADS, KV_HEADS, DIM, WIDE, LAYERS = 256, 4, 2, 64, 512, 3
EXPERTS, USED, EXPERT_WIDE = 4, 2, 256
# Of GatedDeltaNet: key heads, value heads and the elements of each. With three values to a key,
# the order of the heads is not its own inverse. Every INTERVAL-th layer has full attention.
DELTA, INTERVAL = (2, 6, 128), 4
# Of latent attention: the elements of keys without and with a position and of values, and the
# ranks of keys and values and of queries.
LATENT = (64, 32, 64, 128, 128)


def shrink():
    """Makes all models small enough for tests."""
    globals().update(HIDDEN=64, HEADS=2, KV_HEADS=1, DIM=32, WIDE=64, LAYERS=2, EXPERT_WIDE=32,
                     DELTA=(2, 6, 32), INTERVAL=2, LATENT=(32, 16, 32, 32, 32))


@dataclass
class Original:
    architecture: str
    config: dict
    keys: dict
    hf: dict = field(default_factory=dict)
    gguf: dict = field(default_factory=dict)

    def put(self, name, to, x, change=None):
        """Adds a tensor: x in the original, and change(x) in the file."""
        self.hf[name] = x
        self.gguf[to] = np.ascontiguousarray(x if change is None else change(x), dtype=np.float32)


def bf16(x):
    """x rounded toward zero to a bfloat16."""
    return (np.asarray(x, np.float32).view(np.uint32) & 0xffff0000).view(np.float32)


class Maker:
    def __init__(self, original, seed=1):
        self.o, self.rng = original, np.random.default_rng(seed)

    def matrix(self, *shape):
        return (self.rng.standard_normal(shape) * 1.5 / shape[-1] ** 0.5).astype(np.float32)

    def small(self, *shape, deviation=0.1):
        return bf16(self.rng.standard_normal(shape) * deviation)

    def norm(self, name, to, n, centred=False):
        x = self.small(n)
        self.o.put(name, to, x if centred else 1 + x, (lambda x: x + 1) if centred else None)

    def weight(self, name, to, *shape, change=None):
        self.o.put(name + ".weight", to + ".weight", self.matrix(*shape), change)

    def mlp(self, module, blk, wide, suffix=""):
        self.weight(f"{module}.gate_proj", f"{blk}.ffn_gate{suffix}", wide, HIDDEN)
        self.weight(f"{module}.up_proj", f"{blk}.ffn_up{suffix}", wide, HIDDEN)
        self.weight(f"{module}.down_proj", f"{blk}.ffn_down{suffix}", HIDDEN, wide)

    def experts(self, module, blk, count, fused=False):
        """Experts: one module each, or gate and up of all in one stack."""
        self.weight(f"{module}.gate", f"{blk}.ffn_gate_inp", count, HIDDEN)
        stacks = {}
        for name, shape in (("gate", (EXPERT_WIDE, HIDDEN)), ("up", (EXPERT_WIDE, HIDDEN)),
                            ("down", (HIDDEN, EXPERT_WIDE))):
            stacks[name] = self.matrix(count, *shape)
            self.o.gguf[f"{blk}.ffn_{name}_exps.weight"] = stacks[name]
            for e in range(0 if fused else count):
                self.o.hf[f"{module}.experts.{e}.{name}_proj.weight"] = stacks[name][e]
        if fused:
            both = np.concatenate([stacks["gate"], stacks["up"]], axis=1)
            self.o.hf[f"{module}.experts.gate_up_proj"] = both
            self.o.hf[f"{module}.experts.down_proj"] = stacks["down"]
            if fused == "file": # newer files have both in one tensor
                del self.o.gguf[f"{blk}.ffn_gate_exps.weight"]
                del self.o.gguf[f"{blk}.ffn_up_exps.weight"]
                self.o.gguf[f"{blk}.ffn_gate_up_exps.weight"] = both

    def ends(self, vocabulary, model, head, centred=False):
        self.weight(f"{model}.embed_tokens", "token_embd", vocabulary, HIDDEN)
        self.norm(f"{model}.norm.weight", "output_norm.weight", HIDDEN, centred)
        self.weight(head, "output", vocabulary, HIDDEN)


def tiled(x, keys, values, dim, axis=0):
    """Value heads in the order of files: those of different key heads alternate."""
    shape = x.shape
    x = x.reshape(*shape[:axis], keys, values // keys, dim, *shape[axis + 1:])
    return x.swapaxes(axis, axis + 1).reshape(shape)


def qwen(kind):
    """Qwen3.5, dense and with experts, and Qwen3-Next, also in the form of old files."""
    (keys, values, dk), layers, taps = DELTA, INTERVAL, 4
    dv = dk # llama.cpp has one size for both
    moe, following = kind != "qwen35", kind.startswith("qwen3next")
    rope = {"rope_theta": 1e6, "partial_rotary_factor": 0.25, "rope_type": "default"}
    text = {"hidden_size": HIDDEN, "intermediate_size": WIDE, "num_hidden_layers": layers,
            "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM,
            "rms_norm_eps": 1e-6, "max_position_embeddings": 512, "tie_word_embeddings": False,
            "hidden_act": "silu", "full_attention_interval": INTERVAL, "linear_num_key_heads": keys,
            "linear_num_value_heads": values, "linear_key_head_dim": dk,
            "linear_value_head_dim": dv, "linear_conv_kernel_dim": taps}
    if moe:
        text |= {"num_experts": EXPERTS, "num_experts_per_tok": USED,
                 "moe_intermediate_size": EXPERT_WIDE, "norm_topk_prob": True,
                 "shared_expert_intermediate_size": EXPERT_WIDE, "decoder_sparse_step": 1,
                 "mlp_only_layers": []}
    if following:
        config = {"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"],
                  "rope_theta": 1e6, "partial_rotary_factor": 0.25, **text}
        model, head = "model", "lm_head"
    else:
        name = "qwen3_5_moe" if moe else "qwen3_5"
        config = {"model_type": name, "architectures": ["Qwen3_5ForConditionalGeneration"],
                  "tie_word_embeddings": False,
                  "text_config": {"model_type": name + "_text", "rope_parameters": rope, **text}}
        model, head = "model.language_model", "lm_head"
    about = {"block_count": layers, "context_length": 512, "embedding_length": HIDDEN,
             "feed_forward_length": WIDE, "attention.head_count": HEADS,
             "attention.head_count_kv": KV_HEADS, "attention.layer_norm_rms_epsilon": 1e-6,
             "attention.key_length": DIM, "attention.value_length": DIM, "rope.freq_base": 1e6,
             "rope.dimension_count": DIM // 4, "ssm.conv_kernel": taps, "ssm.state_size": dk,
             "ssm.group_count": keys, "ssm.time_step_rank": values, "ssm.inner_size": values * dv,
             "full_attention_interval": INTERVAL}
    if moe:
        about |= {"expert_count": EXPERTS, "expert_used_count": USED,
                  "expert_feed_forward_length": EXPERT_WIDE,
                  "expert_shared_feed_forward_length": EXPERT_WIDE}
    if not following:
        pairs = DIM // 8 # of the three positions in turn; any other would be rotated by 0
        about["rope.dimension_sections"] = [(pairs + 2 - i) // 3 for i in range(3)] + [0]
    o = Original(kind.split("-")[0], config, about)
    m = Maker(o)

    def heads(dim, axis=0):
        return None if following else lambda x: tiled(x, keys, values, dim, axis)

    def last(x):
        """The rows of v in the order of the file, after those of q and k."""
        at = 2 * keys * dk
        return x if following else np.concatenate([x[:at], tiled(x[at:], keys, values, dv)])

    for i in range(layers):
        layer, blk = f"{model}.layers.{i}", f"blk.{i}"
        m.norm(f"{layer}.input_layernorm.weight", f"{blk}.attn_norm.weight", HIDDEN, True)
        m.norm(f"{layer}.post_attention_layernorm.weight", f"{blk}.post_attention_norm.weight",
               HIDDEN, True)
        if (i + 1) % INTERVAL == 0:
            at = f"{layer}.self_attn"
            m.weight(f"{at}.q_proj", f"{blk}.attn_q", 2 * HEADS * DIM, HIDDEN)
            m.weight(f"{at}.k_proj", f"{blk}.attn_k", KV_HEADS * DIM, HIDDEN)
            m.weight(f"{at}.v_proj", f"{blk}.attn_v", KV_HEADS * DIM, HIDDEN)
            m.weight(f"{at}.o_proj", f"{blk}.attn_output", HIDDEN, HEADS * DIM)
            m.norm(f"{at}.q_norm.weight", f"{blk}.attn_q_norm.weight", DIM, True)
            m.norm(f"{at}.k_norm.weight", f"{blk}.attn_k_norm.weight", DIM, True)
        else:
            at, channels = f"{layer}.linear_attn", 2 * keys * dk + values * dv
            if following:
                delta_inputs(m, o, at, blk, keys, values, dk, dv, kind.endswith("-old"))
            else:
                m.weight(f"{at}.in_proj_qkv", f"{blk}.attn_qkv", channels, HIDDEN, change=last)
                m.weight(f"{at}.in_proj_z", f"{blk}.attn_gate", values * dv, HIDDEN,
                         change=heads(dv))
                m.weight(f"{at}.in_proj_b", f"{blk}.ssm_beta", values, HIDDEN, change=heads(1))
                m.weight(f"{at}.in_proj_a", f"{blk}.ssm_alpha", values, HIDDEN, change=heads(1))
            m.weight(f"{at}.out_proj", f"{blk}.ssm_out", HIDDEN, values * dv, change=heads(dv, 1))
            o.put(f"{at}.conv1d.weight", f"{blk}.ssm_conv1d.weight",
                  m.small(channels, 1, taps, deviation=0.5), lambda x: last(x[:, 0]))
            decay = bf16(np.log(m.rng.uniform(0.5, 8, values)))
            order = heads(1) or (lambda x: x)
            o.put(f"{at}.A_log", f"{blk}.ssm_a", decay, lambda x: order(-np.exp(x)))
            o.put(f"{at}.dt_bias", f"{blk}.ssm_dt.bias", m.small(values, deviation=1), heads(1))
            m.norm(f"{at}.norm.weight", f"{blk}.ssm_norm.weight", dv)
        mlp = f"{layer}.mlp"
        if not moe:
            m.mlp(mlp, blk, WIDE)
            continue
        m.experts(mlp, blk, EXPERTS, fused=False if following else "file" if i else True)
        m.mlp(f"{mlp}.shared_expert", blk, EXPERT_WIDE, "_shexp")
        m.weight(f"{mlp}.shared_expert_gate", f"{blk}.ffn_gate_inp_shexp", 1, HIDDEN,
                 change=lambda x: x[0])
    return o, lambda vocabulary: m.ends(vocabulary, model, head, True)


def delta_inputs(m, o, at, blk, keys, values, dk, dv, old):
    """The inputs of Qwen3-Next, whose rows are those of one key head after another."""
    n = values // keys * dv
    whole = m.matrix(keys * (2 * dk + 2 * n), HIDDEN)
    o.hf[f"{at}.in_proj_qkvz.weight"] = whole
    m.weight(f"{at}.in_proj_ba", f"{blk}.ssm_ba", 2 * values, HIDDEN)
    if old:
        o.gguf[f"{blk}.ssm_in.weight"] = whole
        return
    parts = np.split(whole.reshape(keys, -1, HIDDEN), [dk, 2 * dk, 2 * dk + n], axis=1)
    q, k, v, z = (np.ascontiguousarray(p).reshape(-1, HIDDEN) for p in parts)
    o.gguf[f"{blk}.attn_qkv.weight"] = np.concatenate([q, k, v])
    o.gguf[f"{blk}.attn_gate.weight"] = z


def deepseek(kind):
    """DeepSeek-V2 and V3 and GLM-4.7-Flash: a layer with an MLP, and others with experts. A file
    without q_lora_rank has 26 layers or more in llama.cpp."""
    nope, rope, value, rank, queries = LATENT
    experts = 8
    sigmoid, lite = kind != "deepseek_v2", kind == "deepseek_v2"
    layers = 26 if lite else LAYERS
    eps = 1e-5 if kind == "glm4_moe_lite" else 1e-6
    groups, chosen = (2, 1) if kind == "deepseek_v3" else (1, 1)
    scale = 1.0 if lite else 2.5
    config = {"model_type": kind, "architectures": [
                  {"deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM",
                   "glm4_moe_lite": "Glm4MoeLiteForCausalLM"}[kind]],
              "hidden_size": HIDDEN, "intermediate_size": WIDE, "num_hidden_layers": layers,
              "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "kv_lora_rank": rank,
              "q_lora_rank": None if lite else queries, "qk_nope_head_dim": nope,
              "qk_rope_head_dim": rope, "v_head_dim": value, "first_k_dense_replace": 1,
              "n_routed_experts": experts, "n_shared_experts": 2, "num_experts_per_tok": USED,
              "moe_intermediate_size": EXPERT_WIDE, "routed_scaling_factor": scale,
              "norm_topk_prob": sigmoid, "n_group": groups, "topk_group": chosen,
              "topk_method": "noaux_tc" if sigmoid else "greedy",
              "scoring_func": "sigmoid" if sigmoid else "softmax", "rms_norm_eps": eps,
              "rope_theta": 10000.0, "max_position_embeddings": 512, "hidden_act": "silu",
              "tie_word_embeddings": False, "attention_bias": False}
    about = {"block_count": layers, "context_length": 512, "embedding_length": HIDDEN,
             "feed_forward_length": WIDE, "attention.head_count": HEADS,
             "attention.head_count_kv": 1, "attention.layer_norm_rms_epsilon": eps,
             "rope.freq_base": 10000.0, "rope.dimension_count": rope,
             "attention.kv_lora_rank": rank, "attention.key_length": rank + rope,
             "attention.value_length": rank, "attention.key_length_mla": nope + rope,
             "attention.value_length_mla": value, "leading_dense_block_count": 1,
             "expert_count": experts, "expert_used_count": USED, "expert_shared_count": 2,
             "expert_feed_forward_length": EXPERT_WIDE, "expert_weights_scale": scale,
             "expert_group_count": groups, "expert_group_used_count": chosen,
             "expert_gating_func": 2 if sigmoid else 1}
    if sigmoid:
        about["expert_weights_norm"] = True
    if not lite:
        about["attention.q_lora_rank"] = queries
    if kind != "glm4_moe_lite":
        magnitude = 0.707 if lite else 1.0
        config["rope_scaling"] = {"type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                                  "beta_slow": 1.0, "mscale": magnitude,
                                  "mscale_all_dim": magnitude,
                                  "original_max_position_embeddings": 128}
        about |= {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                  "rope.scaling.original_context_length": 128,
                  "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0,
                  "rope.scaling.yarn_log_multiplier": 0.1 * magnitude}
    o = Original("deepseek2", config, about)
    m = Maker(o)
    for i in range(layers):
        layer, blk = f"model.layers.{i}", f"blk.{i}"
        at = f"{layer}.self_attn"
        m.norm(f"{layer}.input_layernorm.weight", f"{blk}.attn_norm.weight", HIDDEN)
        m.norm(f"{layer}.post_attention_layernorm.weight", f"{blk}.ffn_norm.weight", HIDDEN)
        if lite:
            m.weight(f"{at}.q_proj", f"{blk}.attn_q", HEADS * (nope + rope), HIDDEN)
        else:
            m.weight(f"{at}.q_a_proj", f"{blk}.attn_q_a", queries, HIDDEN)
            m.norm(f"{at}.q_a_layernorm.weight", f"{blk}.attn_q_a_norm.weight", queries)
            m.weight(f"{at}.q_b_proj", f"{blk}.attn_q_b", HEADS * (nope + rope), queries)
        m.weight(f"{at}.kv_a_proj_with_mqa", f"{blk}.attn_kv_a_mqa", rank + rope, HIDDEN)
        m.norm(f"{at}.kv_a_layernorm.weight", f"{blk}.attn_kv_a_norm.weight", rank)
        whole = m.matrix(HEADS * (nope + value), rank)
        o.hf[f"{at}.kv_b_proj.weight"] = whole
        parts = whole.reshape(HEADS, nope + value, rank)
        o.gguf[f"{blk}.attn_k_b.weight"] = np.ascontiguousarray(
            parts[:, :nope].transpose(0, 2, 1))
        o.gguf[f"{blk}.attn_v_b.weight"] = np.ascontiguousarray(parts[:, nope:])
        m.weight(f"{at}.o_proj", f"{blk}.attn_output", HIDDEN, HEADS * value)
        if i == 0:
            m.mlp(f"{layer}.mlp", blk, WIDE)
            continue
        m.experts(f"{layer}.mlp", blk, experts)
        if sigmoid:
            o.put(f"{layer}.mlp.gate.e_score_correction_bias", f"{blk}.exp_probs_b.bias",
                  m.small(experts))
        m.mlp(f"{layer}.mlp.shared_experts", blk, 2 * EXPERT_WIDE, "_shexp")
    return o, lambda vocabulary: m.ends(vocabulary, "model", "lm_head")


def deepseek_old():
    """DeepSeek-V3 in the form of old files: kv_b_proj is whole, and each head has keys."""
    o, ends = deepseek("deepseek_v3")
    for i in range(o.keys["block_count"]):
        o.gguf[f"blk.{i}.attn_kv_b.weight"] = o.hf[f"model.layers.{i}.self_attn.kv_b_proj.weight"]
        del o.gguf[f"blk.{i}.attn_k_b.weight"], o.gguf[f"blk.{i}.attn_v_b.weight"]
    k, v = o.keys.pop("attention.key_length_mla"), o.keys.pop("attention.value_length_mla")
    o.keys |= {"attention.key_length": k, "attention.value_length": v,
               "attention.head_count_kv": HEADS}
    return o, ends


def gpt_oss(packed):
    """gpt-oss with experts in MXFP4, as the original has them, or in floats.

    llama.cpp rounds the limits of YaRN's frequencies, and the original does not. The limits here
    are 8.0001 and 15.9999, so that both are the same."""
    theta, context, layers = 1049000.0, 6435, LAYERS
    config = {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"],
              "hidden_size": HIDDEN, "intermediate_size": EXPERT_WIDE,
              "num_hidden_layers": layers, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": DIM, "num_local_experts": EXPERTS,
              "num_experts_per_tok": USED, "sliding_window": 16, "rms_norm_eps": 1e-5,
              "max_position_embeddings": 4 * context, "rope_theta": theta, "swiglu_limit": 7.0,
              "tie_word_embeddings": False, "attention_bias": True, "hidden_act": "silu",
              "layer_types": ["sliding_attention", "full_attention"] * 2,
              "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                               "beta_slow": 1.0, "truncate": False,
                               "original_max_position_embeddings": context}}
    config["layer_types"] = config["layer_types"][:layers]
    about = {"block_count": layers, "context_length": 4 * context, "embedding_length": HIDDEN,
             "feed_forward_length": EXPERT_WIDE, "attention.head_count": HEADS,
             "attention.head_count_kv": KV_HEADS, "attention.layer_norm_rms_epsilon": 1e-5,
             "attention.key_length": DIM, "attention.value_length": DIM,
             "attention.sliding_window": 16, "rope.freq_base": theta, "expert_count": EXPERTS,
             "expert_used_count": USED, "expert_feed_forward_length": EXPERT_WIDE,
             "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
             "rope.scaling.original_context_length": context,
             "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0}
    o = Original("gpt-oss", config, about)
    m = Maker(o)
    for i in range(layers):
        layer, blk = f"model.layers.{i}", f"blk.{i}"
        at, experts = f"{layer}.self_attn", f"{layer}.mlp.experts"
        m.norm(f"{layer}.input_layernorm.weight", f"{blk}.attn_norm.weight", HIDDEN)
        m.norm(f"{layer}.post_attention_layernorm.weight", f"{blk}.post_attention_norm.weight",
               HIDDEN)
        for name, to, rows, cols in (("q_proj", "attn_q", HEADS * DIM, HIDDEN),
                                     ("k_proj", "attn_k", KV_HEADS * DIM, HIDDEN),
                                     ("v_proj", "attn_v", KV_HEADS * DIM, HIDDEN),
                                     ("o_proj", "attn_output", HIDDEN, HEADS * DIM)):
            m.weight(f"{at}.{name}", f"{blk}.{to}", rows, cols)
            o.put(f"{at}.{name}.bias", f"{blk}.{to}.bias", m.small(rows))
        o.put(f"{at}.sinks", f"{blk}.attn_sinks.weight", m.small(HEADS, deviation=1))
        m.weight(f"{layer}.mlp.router", f"{blk}.ffn_gate_inp", EXPERTS, HIDDEN)
        o.put(f"{layer}.mlp.router.bias", f"{blk}.ffn_gate_inp.bias", m.small(EXPERTS))
        both = m.small(EXPERTS, 2 * EXPERT_WIDE)
        o.hf[f"{experts}.gate_up_proj_bias"] = both
        for j, name in enumerate(("gate", "up")):
            o.gguf[f"{blk}.ffn_{name}_exps.bias"] = np.ascontiguousarray(both[:, j::2])
        o.put(f"{experts}.down_proj_bias", f"{blk}.ffn_down_exps.bias", m.small(EXPERTS, HIDDEN))
        oss_experts(m, o, experts, blk, packed)
    return o, lambda vocabulary: m.ends(vocabulary, "model", "lm_head")


def oss_experts(m, o, experts, blk, packed):
    for name, rows, cols in (("gate_up", 2 * EXPERT_WIDE, HIDDEN), ("down", HIDDEN, EXPERT_WIDE)):
        x = m.matrix(EXPERTS, rows, cols)
        parts = {"gate": slice(0, None, 2), "up": slice(1, None, 2)} if name == "gate_up" else \
            {"down": slice(None)}
        if not packed: # the matrices of the original are transposed
            o.hf[f"{experts}.{name}_proj"] = np.ascontiguousarray(x.transpose(0, 2, 1))
            for part, pick in parts.items():
                o.gguf[f"{blk}.ffn_{part}_exps.weight"] = np.ascontiguousarray(x[:, pick])
            continue
        blocks = gguf.quantize(x, Type.MXFP4).reshape(EXPERTS, rows, cols // 32, 17)
        codes = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=-1)
        o.hf[f"{experts}.{name}_proj_blocks"] = codes[..., ::2] | codes[..., 1::2] << 4
        o.hf[f"{experts}.{name}_proj_scales"] = np.ascontiguousarray(blocks[..., 0])
        for part, pick in parts.items():
            one = np.ascontiguousarray(blocks[:, pick]).reshape(EXPERTS, -1, cols // 32 * 17)
            o.gguf[f"{blk}.ffn_{part}_exps.weight"] = (Type.MXFP4, one)


ORIGINALS = {
    "qwen35": lambda: qwen("qwen35"),
    "qwen35moe": lambda: qwen("qwen35moe"),
    "qwen3next": lambda: qwen("qwen3next"),
    "qwen3next-old": lambda: qwen("qwen3next-old"),
    "deepseek_v2": lambda: deepseek("deepseek_v2"),
    "deepseek_v3": lambda: deepseek("deepseek_v3"),
    "deepseek_v3-old": deepseek_old,
    "glm4_moe_lite": lambda: deepseek("glm4_moe_lite"),
    "gpt-oss": lambda: gpt_oss(True),
    "gpt-oss-plain": lambda: gpt_oss(False),
}


def write_gguf(path, o, ends, kind=None, plain=False):
    """Writes the file, and returns its tensors with their types. Matrices get the type kind. With
    plain, all elements become float32: the same numbers without blocks."""
    w = gguf.GGUFWriter(path, o.architecture)
    for key, value in o.keys.items():
        key = f"{o.architecture}.{key}"
        if isinstance(value, list):
            w.add_array(key, value)
        else:
            {int: w.add_uint32, float: w.add_float32, str: w.add_string, bool: w.add_bool,
             np.float64: w.add_float32}[type(value)](key, value)
    vocabulary = files.gpt2(w, "qwen2")
    w.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    if "output.weight" not in o.gguf:
        ends(vocabulary)
    rng, made = np.random.default_rng(9), {}
    for name, data in o.gguf.items():
        of, data = data if isinstance(data, tuple) else (Type.F32, data)
        can = name.endswith(".weight") and data.ndim > 1 and "conv1d" not in name and \
            "ffn_gate_inp" not in name
        if kind is not None and of == Type.F32 and can and \
                data.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0:
            of, data = kind, files.blocks(rng, data.shape, kind, 1.5 / data.shape[-1] ** 0.5)
        if plain and of != Type.F32:
            of, data = Type.F32, gguf.dequantize(data, of)
        made[name] = (of, data)
        w.add_tensor(name, np.ascontiguousarray(data), raw_dtype=of)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return made


def write_original(folder, o, tokenizer):
    """Writes the original in Hugging Face's layout, with the files of a tokenizer."""
    folder.mkdir()
    vocabulary = o.gguf["token_embd.weight"].shape[0]
    config = json.loads(json.dumps(o.config, default=float))
    config.get("text_config", config)["vocab_size"] = vocabulary
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tokenizer / name).read_bytes())
    header, at = {}, 0
    for name, x in o.hf.items():
        kind = {np.dtype(np.float32): "F32", np.dtype(np.uint8): "U8"}[x.dtype]
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head)
        for x in o.hf.values():
            f.write(np.ascontiguousarray(x).tobytes())
