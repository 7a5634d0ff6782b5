"""The architectures: the metadata and the tensors of a small model of each.

A row has the keys of the metadata without the architecture's name, and a function that yields the
names and shapes of a layer's tensors, rows first."""

HIDDEN, HEADS, KV_HEADS, DIM, WIDE, LAYERS = 256, 4, 2, 64, 512, 3
EXPERTS, USED, EXPERT_WIDE = 4, 2, 256

BASE = {"block_count": LAYERS, "context_length": 512, "embedding_length": HIDDEN,
        "feed_forward_length": WIDE, "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS, "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0, "rope.dimension_count": DIM, "attention.key_length": DIM,
        "attention.value_length": DIM}
MOE = {"expert_count": EXPERTS, "expert_used_count": USED,
       "expert_feed_forward_length": EXPERT_WIDE}


def attention(bias=False, norms=False, wide=False):
    yield "attn_q.weight", (HEADS * DIM, HIDDEN)
    yield "attn_k.weight", (KV_HEADS * DIM, HIDDEN)
    yield "attn_v.weight", (KV_HEADS * DIM, HIDDEN)
    yield "attn_output.weight", (HIDDEN, HEADS * DIM)
    if bias:
        yield "attn_q.bias", (HEADS * DIM,)
        yield "attn_k.bias", (KV_HEADS * DIM,)
        yield "attn_v.bias", (KV_HEADS * DIM,)
    if norms:
        yield "attn_q_norm.weight", (HEADS * DIM if wide else DIM,)
        yield "attn_k_norm.weight", (KV_HEADS * DIM if wide else DIM,)


def mlp():
    yield "ffn_gate.weight", (WIDE, HIDDEN)
    yield "ffn_up.weight", (WIDE, HIDDEN)
    yield "ffn_down.weight", (HIDDEN, WIDE)


def experts(shared=False):
    yield "ffn_gate_inp.weight", (EXPERTS, HIDDEN)
    yield "ffn_gate_exps.weight", (EXPERTS, EXPERT_WIDE, HIDDEN)
    yield "ffn_up_exps.weight", (EXPERTS, EXPERT_WIDE, HIDDEN)
    yield "ffn_down_exps.weight", (EXPERTS, HIDDEN, EXPERT_WIDE)
    if shared:
        yield "ffn_gate_inp_shexp.weight", (HIDDEN,)
        yield "ffn_gate_shexp.weight", (EXPERT_WIDE, HIDDEN)
        yield "ffn_up_shexp.weight", (EXPERT_WIDE, HIDDEN)
        yield "ffn_down_shexp.weight", (HIDDEN, EXPERT_WIDE)


def norms(*names):
    for name in names:
        yield name + ".weight", (HIDDEN,)


def layer(*parts):
    """A function that yields the tensors of all parts."""
    return [pair for part in parts for pair in part]


class Row:
    """A small model: its architecture, keys, the tensors of a layer, and its kind of vocabulary."""

    def __init__(self, architecture, tensors, keys=None, vocabulary="gpt2", tied=False,
                 rope_freqs=None, factors=None, shifted=False, prefix=True):
        self.architecture, self.tensors, self.tied = architecture, tensors, tied
        self.keys = {**BASE, **(keys or {})}
        self.vocabulary, self.rope_freqs, self.factors = vocabulary, rope_freqs, factors
        self.shifted, self.prefix = shifted, prefix


PLAIN = ("attn_norm", "ffn_norm")
SANDWICH = (*PLAIN, "post_attention_norm", "post_ffw_norm")


def llama3_factors(factor=8.0, low=1.0, high=4.0, context=8192, theta=500000.0):
    """The factors that llama.cpp's conversion computes for the scaling of Llama 3."""
    import math
    out = []
    for i in range(0, DIM, 2):
        length = 2 * math.pi * theta ** (i / DIM)
        if length < context / high:
            out.append(1.0)
        elif length > context / low:
            out.append(factor)
        else:
            smooth = (context / length - low) / (high - low)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return out


ROWS = {
    "gemma": Row("gemma", layer(norms(*PLAIN), attention(), mlp()), tied=True, vocabulary="llama",
                 shifted=True, prefix=False),
    "gemma2": Row("gemma2", layer(norms(*SANDWICH), attention(), mlp()),
                  {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
                   "attention.sliding_window": 16}, tied=True, vocabulary="llama", shifted=True,
                  prefix=False),
    "gemma3": Row("gemma3", layer(norms(*SANDWICH), attention(norms=True), mlp()),
                  {"block_count": 7, "attention.sliding_window": 16, "rope.freq_base": 1000000.0,
                   "rope.scaling.type": "linear", "rope.scaling.factor": 8.0}, tied=True,
                  vocabulary="llama", shifted=True, prefix=False),
    "granite": Row("granite", layer(norms(*PLAIN), attention(), mlp()),
                   {"attention.scale": 0.02, "embedding_scale": 12.0, "residual_scale": 0.22,
                    "logit_scale": 8.0}, tied=True),
    "llama": Row("llama", layer(norms(*PLAIN), attention(), mlp()), vocabulary="llama"),
    "llama3": Row("llama", layer(norms(*PLAIN), attention(), mlp()),
                  {"rope.freq_base": 500000.0, "rope.scaling.attn_factor": 1.0},
                  rope_freqs=llama3_factors()),
    "llama-linear": Row("llama", layer(norms(*PLAIN), attention(), mlp()),
                        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "mixtral": Row("llama", layer(norms(*PLAIN), attention(), experts()),
                   {"expert_count": EXPERTS, "expert_used_count": USED,
                    "feed_forward_length": EXPERT_WIDE}, vocabulary="llama"),
    "olmo2": Row("olmo2", layer(norms("post_attention_norm", "post_ffw_norm"),
                                attention(norms=True, wide=True), mlp())),
    "phi3": Row("phi3", layer(norms(*PLAIN), [
        ("attn_qkv.weight", ((HEADS + 2 * KV_HEADS) * DIM, HIDDEN)),
        ("attn_output.weight", (HIDDEN, HEADS * DIM)), ("ffn_up.weight", (2 * WIDE, HIDDEN)),
        ("ffn_down.weight", (HIDDEN, WIDE))]), {"rope.scaling.original_context_length": 512},
        vocabulary="llama"),
    "qwen2": Row("qwen2", layer(norms(*PLAIN), attention(bias=True), mlp()), tied=True),
    "qwen2-yarn": Row("qwen2", layer(norms(*PLAIN), attention(bias=True), mlp()),
                      {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                       "rope.scaling.original_context_length": 128}),
    "qwen2moe": Row("qwen2moe", layer(norms(*PLAIN), attention(bias=True), experts(shared=True)),
                    {**MOE, "expert_shared_feed_forward_length": EXPERT_WIDE}),
    "qwen3": Row("qwen3", layer(norms(*PLAIN), attention(norms=True), mlp()), tied=True),
    "qwen3moe": Row("qwen3moe", layer(norms(*PLAIN), attention(norms=True), experts()), MOE),
    "seed_oss": Row("seed_oss", layer(norms("attn_norm", "post_attention_norm"),
                                      attention(bias=True), mlp())),
    "smollm3": Row("smollm3", layer(norms(*PLAIN), attention(), mlp()), {"block_count": 5},
                   tied=True),
}
