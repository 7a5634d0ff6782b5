"""The rows of architectures with few options; table.py says how to add one.

SMALL is the first variant of most: it is small enough for a golden. Many classes of mlx-lm do not
read head_dim, so it is hidden_size / num_attention_heads there.
"""

from rows import WIDE, Row, sizes

SMALL = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 3,
         "intermediate_size": 192}
TIED, UNTIED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
EVEN = {**WIDE, "hidden_size": 192}  # whose heads have 32 dimensions without head_dim
FEW_EXPERTS = {**SMALL, "num_hidden_layers": 2, "intermediate_size": 64}

GRANITE = {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 3.0,
           "attention_multiplier": 0.11}

LAYER_NORM = {"rms_norm_eps": None, "layer_norm_eps": 1e-5}

MUSE_GLIMMER = sizes(rms_norm_eps=1e-5, rope_theta=5e5, num_hidden_layers=4, sliding_window=20)
MUSE_GLIMMER_VARIANTS = [
    {**SMALL, **TIED, "num_hidden_layers": 4},
    # Other epsilons, which count, and a layer with a window that does not rotate.
    {**WIDE, "num_attention_heads": 4, "rms_norm_eps": 0.3, "post_norm_eps": 0.02,
     "qk_scale_factor": 1.7, "output_multiplier": 0.7, "final_logit_softcapping": 3.0,
     "sliding_window": 33,
     "layer_types": ["full_attention", "sliding_attention"] * 2,
     "layer_rope_theta": [1e4, 1e4, 0, 0], "rope_theta": None,
     "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
]

MELLUM_LAYERS = ["sliding_attention", "full_attention"] * 2
MELLUM_ROPES = {"full_attention": {"rope_type": "default", "rope_theta": 5e5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}

TYPES = {
    "afmoe": Row(sizes(num_experts=7, num_experts_per_tok=3, moe_intermediate_size=64,
                       num_shared_experts=1, num_dense_layers=1, route_norm=True,
                       route_scale=1.7, sliding_window=20, num_hidden_layers=4,
                       layer_types=["sliding_attention", "full_attention"] * 2), [
        {**FEW_EXPERTS, **TIED, "num_experts": 5, "num_hidden_layers": 3, "mup_enabled": True,
         "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
        {**WIDE, "num_dense_layers": 0, "num_shared_experts": 2, "route_norm": False,
         "sliding_window": 33, "mup_enabled": False, "rope_theta": 1e6},
    ]),
    # mlx-lm does not read head_dim, and the head is always tied.
    "cohere": Row(sizes(head_dim=None, **LAYER_NORM, **TIED), [
        {**SMALL, "attention_bias": True, "layer_norm_bias": True, "logit_scale": 0.5},
        {**EVEN, **TIED, "logit_scale": 1.7, "rope_theta": 8e6},
    ]),
    "cohere2": Row(sizes(**LAYER_NORM, **TIED), [
        {**SMALL, "sliding_window": 20, "sliding_window_pattern": 3, "logit_scale": 0.5},
        {**EVEN, **TIED, "num_hidden_layers": 4, "sliding_window": 33, "attention_bias": True,
         "sliding_window_pattern": 2, "layer_norm_bias": True},
    ]),
    # mlx-lm does not read head_dim or norm_topk_prob, and its head is never tied.
    "deepseek": Row(sizes(head_dim=None, n_routed_experts=7, num_experts_per_tok=3,
                          n_shared_experts=2, moe_intermediate_size=64, first_k_dense_replace=1,
                          **UNTIED), [
        {**FEW_EXPERTS, "n_routed_experts": 5, "n_shared_experts": 1},
        {**EVEN, "moe_layer_freq": 2, "first_k_dense_replace": 0, "attention_bias": True,
         "rope_scaling": {"type": "linear", "factor": 4.0}},
    ]),
    # mlx-lm reads no bias of attention.
    "dots1": Row(sizes(n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
                       moe_intermediate_size=64, first_k_dense_replace=1, norm_topk_prob=True,
                       routed_scaling_factor=1.7, scoring_func="noaux_tc"), [
        {**FEW_EXPERTS, **TIED, "n_routed_experts": 5},
        {**WIDE, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 2, "n_shared_experts": 2,
         "norm_topk_prob": False, "first_k_dense_replace": 2, "rope_theta": 1e6},
    ]),
    "ernie4_5": Row(sizes(), [
        {**SMALL, **TIED, "use_bias": False},
        {**WIDE, "use_bias": True, "rope_theta": 5e5},
    ]),
    "ernie4_5_moe": Row(
        sizes(use_bias=False, moe_num_experts=7, moe_k=3, moe_intermediate_size=64,
              moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_interval=1,
              num_hidden_layers=4), [
            {**FEW_EXPERTS, **TIED, "num_hidden_layers": 3, "moe_num_experts": 5,
             "moe_num_shared_experts": 1},
            {**WIDE, "num_hidden_layers": 5, "moe_layer_interval": 2,
             "moe_layer_start_index": [1, 1], "moe_layer_end_index": [4, 2]},
            {**WIDE, "moe_num_shared_experts": 0, "moe_intermediate_size": 0},
        ]),
    "exaone4": Row(sizes(), [
        {**SMALL, **TIED, "sliding_window": 20,
         "sliding_window_pattern": "LLG", "rope_scaling": {
             "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
             "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
        {**WIDE, "sliding_window": None, "sliding_window_pattern": None,
         "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    ]),
    # mlx-lm reads weights that have been multiplied, but for those of keys and values: the
    # multipliers of these are 1. originals.py compares all with transformers.
    "falcon_h1": Row(
        sizes(head_dim=32, attention_in_multiplier=1.0, key_multiplier=1.0, mamba_d_ssm=64,
              mamba_n_heads=2, mamba_d_head=32, mamba_n_groups=1, mamba_d_state=16,
              mamba_d_conv=4, mamba_expand=1, mamba_norm_before_gate=False,
              projectors_bias=False, embedding_multiplier=5.0, lm_head_multiplier=0.4), [
            {**SMALL, **TIED, "mamba_rms_norm": False},
            {**WIDE, "mamba_rms_norm": True, "mamba_n_heads": 6, "mamba_d_head": 64,
             "mamba_d_ssm": 384, "mamba_d_conv": 3, "mamba_conv_bias": False,
             "rope_theta": 1e6},
            {**WIDE, **TIED, "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_ssm": 128,
             "lm_head_multiplier": 3.0},
        ]),
    # weights.py gives mlx-lm the activation of the checkpoints. hidden_size as for gemma2.
    "gemma": Row(sizes(hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True), [
        SMALL,
        {**WIDE, **TIED, "hidden_size": 256, "hidden_act": "gelu"},
    ]),
    # mlx-lm rotates the whole head, whatever partial_rotary_factor is.
    "glm": Row(sizes(partial_rotary_factor=1.0), [
        {**SMALL, **TIED, "attention_bias": True},
        {**WIDE, "attention_bias": False, "rope_theta": 1e6},
    ]),
    # mlx-lm's head is never tied.
    "glm4": Row(sizes(**UNTIED), [
        {**SMALL, "attention_bias": True, "partial_rotary_factor": 0.5},
        {**WIDE, "attention_bias": False, "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    ]),
    # mlx-lm packs the router, o_proj and down_proj in groups of 64.
    "granitemoe": Row(sizes(head_dim=None, **GRANITE, attention_bias=False, num_local_experts=5,
                            num_experts_per_tok=3), [
        {**FEW_EXPERTS, **TIED, "attention_bias": True},
        {**EVEN, "intermediate_size": 128, "residual_multiplier": 0.7, "logits_scaling": 0.25,
         "embedding_multiplier": 0.5, "attention_multiplier": 0.3},
    ]),
    # mlx-lm cannot run a tied head.
    "helium": Row(sizes(**UNTIED), [
        {**SMALL, "attention_bias": True, "mlp_bias": True},
        {**EVEN, "attention_bias": False, "mlp_bias": False, "rope_theta": 1e5},
    ]),
    "hunyuan_v1_dense": Row(sizes(), [
        {**SMALL, **TIED, "attention_bias": True,
         "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
        {**WIDE, "use_qk_norm": False,
         "rope_scaling": {"type": "dynamic", "alpha": 7.0, "factor": 1.0}},
    ]),
    # o_proj of mlx-lm has a bias if qkv_bias is true.
    "internlm3": Row(sizes(head_dim=None), [
        {**SMALL, **TIED, "qkv_bias": False, "bias": False},
        {**EVEN, "qkv_bias": True, "bias": True},
    ]),
    "iquestcoder": Row(sizes(), [TIED, {**WIDE, "rope_theta": 5e5}]),
    "mimo": Row(sizes(head_dim=None), [TIED, EVEN]),
    # mlx-lm does not scale the logits of a tied head.
    "minicpm": Row(sizes(head_dim=None, **UNTIED), [
        {**SMALL, "dim_model_base": 16, "scale_depth": 1.4, "scale_emb": 12.0},
        {**EVEN, "dim_model_base": 256, "scale_depth": 0.9, "scale_emb": 0.5},
    ]),
    "minimax_m2": Row(
        sizes(num_local_experts=7, num_experts_per_tok=3, shared_intermediate_size=0), [
            {**FEW_EXPERTS, **TIED, "rotary_dim": 16, "num_local_experts": 5},
            {**WIDE, "rotary_dim": 32, "use_qk_norm": False, "intermediate_size": 96},
        ]),
    "mixtral": Row(sizes(head_dim=None, num_local_experts=5, num_experts_per_tok=2), [
        {**FEW_EXPERTS, **TIED},
        {**EVEN, "num_experts_per_tok": 3},
    ]),
    "mellum": Row(sizes(num_experts=7, num_experts_per_tok=3, moe_intermediate_size=64,
                        norm_topk_prob=True, sliding_window=20, rope_theta=None,
                        num_hidden_layers=4, layer_types=MELLUM_LAYERS,
                        rope_parameters=MELLUM_ROPES), [
        {**FEW_EXPERTS, **TIED, "num_experts": 5, "layer_types": MELLUM_LAYERS[:2]},
        {**WIDE, "sliding_window": 33, "norm_topk_prob": False, "rope_parameters": {
            **MELLUM_ROPES, "full_attention": {
                "rope_type": "yarn", "rope_theta": 5e5, "factor": 8.0, "beta_fast": 32.0,
                "beta_slow": 1.0, "original_max_position_embeddings": 64}}},
    ]),
    "muse_glimmer": Row(MUSE_GLIMMER, MUSE_GLIMMER_VARIANTS, inside="muse_glimmer_text"),
    "muse_glimmer_text": Row(MUSE_GLIMMER, MUSE_GLIMMER_VARIANTS, mlx="muse_glimmer"),
    "nemotron": Row(
        sizes(rms_norm_eps=None, norm_eps=1e-5, hidden_act="relu2", partial_rotary_factor=0.5), [
            {**SMALL, **TIED, "attention_bias": True, "mlp_bias": True,
             "intermediate_size": 320},
            {**WIDE, "partial_rotary_factor": 0.25,
             "rope_scaling": {"type": "linear", "factor": 4.0}},
        ]),
    # mlx-lm's head is never tied.
    "nemotron_h": Row(
        sizes(head_dim=32, rope_theta=None, rms_norm_eps=None, layer_norm_epsilon=1e-5,
              num_hidden_layers=5, hybrid_override_pattern="M-M*E", attention_bias=False,
              mamba_num_heads=2, mamba_head_dim=32, mamba_proj_bias=False, ssm_state_size=16,
              conv_kernel=4, n_groups=1, mlp_bias=False, use_bias=False, use_conv_bias=True,
              n_group=1, topk_group=1, n_routed_experts=6, n_shared_experts=1,
              num_experts_per_tok=3, moe_intermediate_size=64,
              moe_shared_expert_intermediate_size=96, norm_topk_prob=True,
              routed_scaling_factor=2.5, time_step_limit=[0.0, 100.0], **UNTIED), [
            {**SMALL, "num_hidden_layers": 5, "intermediate_size": 96, "n_routed_experts": 4,
             "num_experts_per_tok": 2, "moe_intermediate_size": 32,
             "moe_shared_expert_intermediate_size": 32},
            {**WIDE, "hybrid_override_pattern": "EM*-ME", "num_hidden_layers": 6,
             "mamba_num_heads": 6, "mamba_head_dim": 64, "n_groups": 3, "ssm_state_size": 24,
             "conv_kernel": 3, "mlp_bias": True, "attention_bias": True, "mamba_proj_bias": True,
             "use_bias": True, "use_conv_bias": False, "n_routed_experts": 12, "n_group": 4,
             "topk_group": 2, "norm_topk_prob": False, "time_step_limit": [0.4, 1.1]},
            {**WIDE, "hybrid_override_pattern": None, "layers_block_type":
             ["mamba", "moe", "attention", "moe"], "num_hidden_layers": 4,
             "moe_latent_size": 64, "n_groups": 2},
        ]),
    "olmo2": Row(sizes(), [
        {**SMALL, **TIED, "attention_bias": True},
        {**WIDE, "rope_theta": 5e5},
    ]),
    "olmoe": Row(sizes(num_experts=5, num_experts_per_tok=3), [
        {**FEW_EXPERTS, **TIED, "norm_topk_prob": False},
        {**EVEN, "attention_bias": True, "norm_topk_prob": True},
    ]),
    # mlx-lm never normalizes the weights of experts or scales the rope, and its head is not tied.
    "qwen2_moe": Row(
        sizes(head_dim=None, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=64,
              shared_expert_intermediate_size=96), [
            {**FEW_EXPERTS, **UNTIED, "num_experts": 5},
            {**EVEN, "rope_theta": 1e6},
        ]),
    # mlx-lm does not read head_dim, and its head is never tied.
    # mlx-lm does not scale frequencies, and its head is never tied.
    "solar_open": Row(sizes(n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
                            moe_intermediate_size=64, first_k_dense_replace=0, norm_topk_prob=True,
                            routed_scaling_factor=1.0, partial_rotary_factor=1.0,
                            rope_theta=1e6), [
        {**FEW_EXPERTS, **UNTIED, "n_routed_experts": 5},
        {**WIDE, "routed_scaling_factor": 0.6, "n_shared_experts": 2, "attention_bias": True},
    ]),
    "stablelm": Row(sizes(head_dim=None, **LAYER_NORM, **UNTIED), [
        {**SMALL, "use_qkv_bias": True, "partial_rotary_factor": 0.25},
        {**EVEN, "use_qkv_bias": False, "use_parallel_residual": True,
         "partial_rotary_factor": 0.5},
    ]),
    # mlx-lm does not read head_dim and sliding_window; weights.py gives it the activation.
    "starcoder2": Row(sizes(head_dim=None, rms_norm_eps=None, norm_epsilon=1e-5,
                            hidden_act="gelu_pytorch_tanh", use_bias=True), [
        {**SMALL, **TIED, "intermediate_size": 320},
        {**EVEN, "rope_theta": 1e6},
    ]),
    "telechat3": Row(sizes(), [
        {**TIED, "attention_bias": True, "mlp_bias": True},
        {**WIDE, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    ]),
    "xverse": Row(sizes(), [TIED, WIDE]),
}
