"""The table of the oracle: one row for each model_type that engine/models registers. families.py
has the rows of architectures that have few options.

To add an architecture, add a row, in alphabetical order, and run

    make oracle TYPES=my_type

A row has the keys of config.json that all its variants share, and the variants, at least two. The
keys are those of real checkpoints, so mlx-lm's model class and Headroom read the same file. Choose
odd sizes, and let the variants differ in what can go wrong:

  - one key-value head, and several that do not equal the number of heads
  - a tied and an untied head, if the architecture allows both
  - a sliding window far shorter than the prompt of 150 tokens, and every kind of layer
  - head_dim other than hidden_size / num_attention_heads
  - every option of the architecture: biases, gates, scalings of rotary frequencies

Keep it small: hidden_size about 100, 3 or 4 layers, a vocabulary of up to 512. Sizes are multiples
of 32, so that the packings can pack them; a matrix whose rows are no multiple of the group size
stays plain, as in mlx-lm.
"""

from families import TYPES as FAMILIES
from rows import FLOATS, NARROW, USUAL, WIDE, Row, sizes

GEMMA3 = sizes(
    num_hidden_layers=4, sliding_window_pattern=3, sliding_window=20, rms_norm_eps=1e-6,
    rope_theta=1e6, rope_local_base_freq=1e4, query_pre_attn_scalar=40,
    hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True)
GEMMA3_VARIANTS = [
    {},
    {"hidden_size": 128, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 283,
     "num_hidden_layers": 5, "sliding_window_pattern": 2, "sliding_window": 33,
     "query_pre_attn_scalar": 32, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
]

# The last of layer_types is always full_attention, as in transformers.
GEMMA4 = sizes(
    num_hidden_layers=6, head_dim=32, global_head_dim=64, sliding_window=20, rope_theta=None,
    hidden_activation="gelu_pytorch_tanh", attention_k_eq_v=False, num_kv_shared_layers=0,
    use_double_wide_mlp=False, hidden_size_per_layer_input=0, enable_moe_block=False,
    tie_word_embeddings=True,
    layer_types=["sliding_attention", "full_attention"] * 3,
    rope_parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                           "partial_rotary_factor": 0.25}})
GEMMA4_VARIANTS = [
    # As E2B and E4B: inputs per layer, and shared keys with a wide MLP.
    {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 131,
     "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "final_logit_softcapping": 3.0},
    # As 26B-A4B: experts beside the MLP, and values from k_proj. It is small, for a golden.
    {"hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 3,
     "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1,
     "attention_k_eq_v": True, "sliding_window": 33, "enable_moe_block": True, "num_experts": 4,
     "top_k_experts": 3, "moe_intermediate_size": 64, "final_logit_softcapping": 5.0,
     "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    # As 31B: no experts. The keys of both kinds are shared, and the head is not tied.
    {"hidden_size": 160, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 257,
     "num_global_key_value_heads": 2, "attention_k_eq_v": True, "num_kv_shared_layers": 2,
     "tie_word_embeddings": False, "final_logit_softcapping": None,
     "rope_parameters": {
         "sliding_attention": {"rope_type": "default", "rope_theta": 1e5},
         "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "factor": 2.0,
                            "partial_rotary_factor": 0.5}}},
]

# mlx-lm does not read head_dim, and packs out_proj and the MLPs in groups of 64. Steps are around
# 0.7, so the limits of the second variant clamp some at both ends.
GRANITE4 = sizes(
    hidden_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=None,
    intermediate_size=128, shared_intermediate_size=192, num_hidden_layers=4,
    attention_multiplier=0.11, embedding_multiplier=12.0, residual_multiplier=0.22,
    logits_scaling=3.0, attention_bias=False, position_embedding_type="nope", mlp_bias=False,
    layer_types=["mamba", "mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_head=32,
    mamba_n_groups=1, mamba_d_state=32, mamba_d_conv=4, mamba_expand=2, mamba_conv_bias=True,
    mamba_proj_bias=False, num_local_experts=0, num_experts_per_tok=0,
    time_step_limit=[0.001, 100.0], tie_word_embeddings=True)
GRANITE4_VARIANTS = [
    {},
    # Every bias, groups that heads share, an untied head, and odd sizes of the state.
    {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 283,
     "attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True, "mamba_n_heads": 6,
     "mamba_d_head": 64, "mamba_n_groups": 3, "mamba_d_state": 40, "mamba_d_conv": 3,
     "tie_word_embeddings": False, "time_step_limit": [0.4, 1.1], "residual_multiplier": 0.7,
     "logits_scaling": 0.25, "embedding_multiplier": 0.5, "rms_norm_eps": 1e-3},
    # Experts, and no bias of the convolution.
    {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
     "num_local_experts": 7, "num_experts_per_tok": 3, "intermediate_size": 64,
     "mamba_n_heads": 8, "mamba_n_groups": 2, "mamba_conv_bias": False},
    # As Granite 4.0 Micro: no mamba, and a rotation.
    {"num_hidden_layers": 2, "layer_types": ["attention", "attention"],
     "position_embedding_type": "rope", "rope_theta": 1e5},
]

LFM2 = sizes(
    hidden_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=None,
    rms_norm_eps=None, norm_eps=1e-5, rope_theta=1e6, conv_bias=False, conv_L_cache=3,
    block_dim=64, block_ff_dim=280, block_multiple_of=32, block_ffn_dim_multiplier=1.0,
    block_auto_adjust_ff_dim=True, tie_embedding=True,
    layer_types=["conv", "full_attention", "conv"])
LFM2_VARIANTS = [
    {"intermediate_size": None},
    # The size of the MLP is intermediate_size itself, and the kinds of layers are in another key.
    {"hidden_size": 192, "block_dim": 192, "num_attention_heads": 6, "num_key_value_heads": 2,
     "num_hidden_layers": 4, "vocab_size": 283, "conv_L_cache": 4, "conv_bias": True,
     "block_auto_adjust_ff_dim": False, "block_ff_dim": None, "intermediate_size": 160,
     "layer_types": None, "full_attn_idxs": [0, 2], "rope_theta": None,
     "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    {"hidden_size": 128, "block_dim": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
     "conv_L_cache": 2, "block_ff_dim": 220, "block_ffn_dim_multiplier": 1.3, "norm_eps": 1e-3},
]
LFM2_MOE = {**{k: v for k, v in LFM2.items() if not k.startswith("block_")},
            "intermediate_size": 128, "num_experts": 7, "num_experts_per_tok": 3,
            "moe_intermediate_size": 64, "norm_topk_prob": True, "num_dense_layers": 1,
            "use_expert_bias": True}
LFM2_MOE_VARIANTS = [
    {},
    {"hidden_size": 192, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 283,
     "conv_L_cache": 4, "conv_bias": True, "num_dense_layers": 0, "norm_topk_prob": False,
     "routed_scaling_factor": 2.5},
    {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
     "num_dense_layers": 2, "use_expert_bias": False, "routed_scaling_factor": 0.7,
     "num_experts_per_tok": 2},
]

# mlx-lm gives experts outside the best groups a score of 0, and transformers and Headroom choose
# none. So the variants choose few experts of a group, whose scores are positive.
DEEPSEEK_MOE = dict(
    moe_intermediate_size=64, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
    first_k_dense_replace=1, moe_layer_freq=1, routed_scaling_factor=1.7, n_group=1, topk_group=1,
    norm_topk_prob=True, topk_method="noaux_tc", scoring_func="sigmoid")
# mlx-lm reads head_dim in none of these.
LATENT = sizes(
    hidden_size=64, intermediate_size=64, num_attention_heads=3, num_key_value_heads=3,
    head_dim=None, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=64, qk_rope_head_dim=32,
    v_head_dim=64, attention_bias=False, tie_word_embeddings=False, **DEEPSEEK_MOE)
YARN = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 32,
        "beta_slow": 1}
DEEPSEEK_V3_VARIANTS = [
    {"n_group": 4, "topk_group": 2, "num_experts_per_tok": 2, "num_hidden_layers": 2,
     "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    # As DeepSeek-V2-Lite: no q_lora_rank. Every bias, and another magnitude of the rotation.
    {"hidden_size": 128, "num_attention_heads": 6, "num_key_value_heads": 6, "q_lora_rank": None,
     "kv_lora_rank": 96, "qk_nope_head_dim": 64, "v_head_dim": 32, "vocab_size": 283,
     "attention_bias": True, "n_shared_experts": 2, "norm_topk_prob": False,
     "routed_scaling_factor": 0.8,
     "rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3}},
    {"first_k_dense_replace": 0, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
     "rms_norm_eps": 1e-2},
]

QWEN3_5 = sizes(
    num_hidden_layers=4, head_dim=64, num_attention_heads=2, num_key_value_heads=1,
    full_attention_interval=3, linear_num_value_heads=3, linear_num_key_heads=3,
    linear_key_head_dim=32, linear_value_head_dim=32, linear_conv_kernel_dim=4,
    attn_output_gate=True,
    rope_parameters={"rope_type": "default", "rope_theta": 1e5, "partial_rotary_factor": 0.25})
QWEN3_5_VARIANTS = [
    {"tie_word_embeddings": True},
    {"hidden_size": 128, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 283,
     "head_dim": 32, "linear_num_value_heads": 6, "linear_num_key_heads": 2,
     "linear_value_head_dim": 64, "full_attention_interval": 2, "tie_word_embeddings": False,
     "rope_parameters": {"rope_type": "default", "rope_theta": 1e7,
                         "partial_rotary_factor": 0.5}},
    # The default of partial_rotary_factor, and biases.
    {"tie_word_embeddings": False, "attention_bias": True,
     "rope_parameters": {"rope_type": "default", "rope_theta": 1e5}},
]
QWEN3_5_MOE = {**QWEN3_5, "hidden_size": 192, "num_experts": 7, "num_experts_per_tok": 3,
               "moe_intermediate_size": 64, "shared_expert_intermediate_size": 96,
               "norm_topk_prob": True}
QWEN3_NEXT = {**{k: v for k, v in QWEN3_5_MOE.items() if k != "rope_parameters"},
              "rope_theta": 1e5, "partial_rotary_factor": 0.25, "decoder_sparse_step": 1,
              "mlp_only_layers": []}

# The positions of text are the same in the three parts of its rotary embedding.
QWEN3_VL = sizes(rope_theta=5e6, rope_scaling={
    "rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 5, 5]})

QWEN3_MOE = sizes(
    hidden_size=192, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=64)
QWEN3_MOE_VARIANTS = [
    {**NARROW, "hidden_size": 192, "norm_topk_prob": True, "decoder_sparse_step": 1,
     "mlp_only_layers": [1]},
    {**WIDE, "norm_topk_prob": False, "decoder_sparse_step": 2, "mlp_only_layers": []},
]

QWEN3_VL_MOE = QWEN3_MOE | QWEN3_VL | {"hidden_size": 192, "norm_topk_prob": True}
# mlx-lm needs an output head.
QWEN3_VL_MOE_VARIANTS = [
    {"decoder_sparse_step": 1, "mlp_only_layers": [1], "tie_word_embeddings": False},
    {**WIDE, "decoder_sparse_step": 2, "mlp_only_layers": []},
]

TYPES = {
    # mlx-lm needs a rope_scaling, and does not read norm_topk_prob.
    "deepseek_v2": Row(LATENT, [
        {"topk_method": "greedy", "norm_topk_prob": False, "num_hidden_layers": 2,
         "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}},
        {"topk_method": "group_limited_greedy", "norm_topk_prob": False, "n_group": 4,
         "topk_group": 2, "q_lora_rank": None, "hidden_size": 128, "num_attention_heads": 6,
         "num_key_value_heads": 6, "vocab_size": 283, "n_shared_experts": 2,
         "routed_scaling_factor": 16.0,
         "rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3}},
    ]),
    "deepseek_v3": Row(LATENT, DEEPSEEK_V3_VARIANTS, FLOATS),
    # mlx-lm has no window in this architecture, so that of the row is longer than the prompt. It
    # rounds sqrt(hidden_size) only if it computes in bfloat16, so hidden_size is a square.
    "gemma2": Row(
        sizes(hidden_size=64, sliding_window=400, query_pre_attn_scalar=40,
              hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
              attn_logit_softcapping=4.0, final_logit_softcapping=12.0), [
            {},
            {"hidden_size": 256, "num_attention_heads": 6, "num_key_value_heads": 2,
             "vocab_size": 283, "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0,
             "final_logit_softcapping": 30.0},
        ]),
    "gemma3": Row(GEMMA3, GEMMA3_VARIANTS, inside="gemma3_text"),
    "gemma3_text": Row(GEMMA3, GEMMA3_VARIANTS),
    "gemma4": Row(GEMMA4, GEMMA4_VARIANTS, inside="gemma4_text"),
    "gemma4_text": Row(GEMMA4, GEMMA4_VARIANTS),
    "gemma4_unified": Row(GEMMA4, GEMMA4_VARIANTS, inside="gemma4_unified_text", mlx="gemma4"),
    # mlx-lm does not scale these frequencies.
    "glm4_moe": Row(sizes(hidden_size=64, num_attention_heads=2, num_hidden_layers=2,
                          attention_bias=True, use_qk_norm=False, partial_rotary_factor=0.5,
                          **DEEPSEEK_MOE), [
        {"tie_word_embeddings": False, "use_qk_norm": True, "n_group": 4, "topk_group": 2,
         "num_experts_per_tok": 2, "rope_scaling": None},
        {**WIDE, "attention_bias": False, "rope_scaling": None, "partial_rotary_factor": 0.25,
         "n_shared_experts": 2, "norm_topk_prob": False, "first_k_dense_replace": 0,
         "rope_theta": 1e6},
    ]),
    "glm4_moe_lite": Row(LATENT, [
        {"rms_norm_eps": 1e-5, "rope_theta": 1e6, "num_hidden_layers": 2},
        {"rms_norm_eps": 1e-2, "hidden_size": 128, "num_attention_heads": 5,
         "num_key_value_heads": 5, "qk_nope_head_dim": 96, "kv_lora_rank": 32,
         "qk_rope_head_dim": 64, "v_head_dim": 96, "vocab_size": 283, "n_shared_experts": 2,
         "attention_bias": True, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2},
    ]),
    # Not "truncate": False, which the originals have: mlx-lm does not read it.
    "gpt_oss": Row(
        sizes(hidden_size=192, num_hidden_layers=4, num_local_experts=7,
              num_experts_per_tok=3, sliding_window=20, tie_word_embeddings=False,
              swiglu_limit=7.0, layer_types=["sliding_attention", "full_attention"] * 2), [
            {},
            {"hidden_size": 128, "num_attention_heads": 6, "num_key_value_heads": 2,
             "vocab_size": 283, "sliding_window": 33, "num_experts_per_tok": 2,
             "rope_scaling": {
                 "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                 "original_max_position_embeddings": 64}},
        ], packings=(*USUAL, "mxfp4_experts")),
    # mlx-lm does not read head_dim, and packs o_proj and down_proj in groups of 64.
    "granite": Row(sizes(head_dim=None, attention_multiplier=0.11, embedding_multiplier=12.0,
                         residual_multiplier=0.22, logits_scaling=3.0, attention_bias=False,
                         mlp_bias=False, intermediate_size=192), [
        {**NARROW, "hidden_size": 64, "num_attention_heads": 2, "attention_bias": True,
         "mlp_bias": True},
        {**WIDE, "hidden_size": 192, "residual_multiplier": 0.7, "logits_scaling": 0.25,
         "embedding_multiplier": 0.5, "attention_multiplier": 0.3},
    ]),
    "granitemoehybrid": Row(GRANITE4, GRANITE4_VARIANTS),
    "kimi_k2": Row(LATENT, DEEPSEEK_V3_VARIANTS, mlx="deepseek_v3"),
    # mlx-lm's head is always tied, and it does not read head_dim or rope_scaling.
    "lfm2": Row(LFM2, LFM2_VARIANTS),
    "lfm2_moe": Row(LFM2_MOE, LFM2_MOE_VARIANTS),
    "llama": Row(sizes(), [
        {**NARROW, "attention_bias": True, "mlp_bias": True},
        {**WIDE, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}},
    ]),
    "ministral3": Row(sizes(rope_theta=None), [
        {**NARROW, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
         "sliding_window": 20, "rope_parameters": {
             "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "beta_fast": 4.0,
             "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
             "original_max_position_embeddings": 32, "llama_4_scaling_beta": 0.3}},
        {**WIDE, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "mscale": 1.0,
            "mscale_all_dim": 0.0, "original_max_position_embeddings": 13,
            "llama_4_scaling_beta": 0.1}},
        {**WIDE, "layer_types": ["full_attention", "full_attention", "sliding_attention"],
         "sliding_window": 33, "rope_parameters": {
             "rope_type": "default", "rope_theta": 1e4, "original_max_position_embeddings": 64,
             "llama_4_scaling_beta": 0}},
    ]),
    # Without sliding_window, which mlx-lm reads only with layer_types.
    "mistral": Row(sizes(), [NARROW, {**WIDE, "rope_theta": 1e6}], mlx="llama"),
    "mistral3": Row(sizes(), [
        {**WIDE, "model_type": "mistral", "rope_theta": 1e9},
        {**NARROW, "model_type": "ministral3", "rope_theta": None, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "original_max_position_embeddings": 32,
            "llama_4_scaling_beta": 0.3}},
    ], inside="mistral"),
    "olmo3": Row(sizes(sliding_window=20), [
        {**NARROW, "num_hidden_layers": 5, "attention_bias": True, "rope_scaling": {
            "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 64}},
        {**WIDE, "rope_theta": 5e5, "sliding_window": 33,
         "layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
    ]),
    "phi3": Row(sizes(head_dim=None), [  # mlx-lm does not read head_dim
        NARROW,
        {**WIDE, "hidden_size": 192, "partial_rotary_factor": 0.5},
    ]),
    "qwen2": Row(sizes(head_dim=None), [  # mlx-lm does not read head_dim
        NARROW,
        {**WIDE, "hidden_size": 192, "rope_scaling": {"type": "linear", "factor": 4.0}},
    ]),
    "qwen3": Row(sizes(), [NARROW, WIDE], FLOATS),
    "qwen3_5": Row(QWEN3_5, QWEN3_5_VARIANTS, inside="qwen3_5_text"),
    "qwen3_5_moe": Row(QWEN3_5_MOE, QWEN3_5_VARIANTS, inside="qwen3_5_moe_text"),
    "qwen3_5_moe_text": Row(QWEN3_5_MOE, QWEN3_5_VARIANTS, mlx="qwen3_5_moe",
                            strip="language_model."),
    "qwen3_5_text": Row(QWEN3_5, QWEN3_5_VARIANTS, mlx="qwen3_5", strip="language_model."),
    "qwen3_8": Row(QWEN3_5, QWEN3_5_VARIANTS, inside="qwen3_8_text", mlx="qwen3_5"),
    "qwen3_8_moe": Row(QWEN3_5_MOE, QWEN3_5_VARIANTS, inside="qwen3_8_moe_text",
                       mlx="qwen3_5_moe"),
    "qwen3_8_text": Row(QWEN3_5, QWEN3_5_VARIANTS, mlx="qwen3_5", strip="language_model."),
    "qwen3_moe": Row(QWEN3_MOE, QWEN3_MOE_VARIANTS, FLOATS),
    "qwen3_next": Row(QWEN3_NEXT, [
        {"tie_word_embeddings": True},
        {"hidden_size": 128, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32,
         "vocab_size": 283, "linear_num_value_heads": 6, "linear_num_key_heads": 2,
         "linear_value_head_dim": 64, "full_attention_interval": 2, "rope_theta": 1e7,
         "partial_rotary_factor": 0.5, "mlp_only_layers": [1], "tie_word_embeddings": False},
        {"tie_word_embeddings": False, "attention_bias": True},
    ]),
    "qwen3_vl": Row(QWEN3_VL, [NARROW, WIDE], inside="qwen3_vl_text"),
    "qwen3_vl_moe": Row(QWEN3_VL_MOE, QWEN3_VL_MOE_VARIANTS, inside="qwen3_vl_moe_text",
                        packings=USUAL + ("original",)),
    "qwen3_vl_moe_text": Row(QWEN3_VL_MOE, QWEN3_VL_MOE_VARIANTS, mlx="qwen3_moe"),
    "qwen3_vl_text": Row(QWEN3_VL, [NARROW, WIDE], mlx="qwen3"),
    # mlx-lm cannot run a tied head that is packed.
    "seed_oss": Row(sizes(tie_word_embeddings=False), [
        {"attention_bias": True, "attention_out_bias": False, "intermediate_size": 128},
        {**WIDE, "attention_bias": False, "attention_out_bias": True, "mlp_bias": True},
    ]),
    "smollm3": Row(sizes(), [
        {**NARROW, "num_hidden_layers": 4, "attention_bias": True, "intermediate_size": 96},
        {**WIDE, "no_rope_layers": [0, 1, 0], "rope_scaling": {"type": "linear", "factor": 4.0}},
    ]),
}

TYPES |= FAMILIES
