"""What the rows of table.py and families.py have in common."""

from dataclasses import dataclass, field

# The packings of weights.py: float32 and bfloat16 are plain, affine has 4 bits, mxfp4 and mxfp8 are
# MLX's. original is bfloat16 in the layout of Qwen3-VL's originals.
USUAL = ("float32", "bfloat16", "affine", "mxfp4", "mxfp8")
# nvfp4 is MLX's, and fp8 has scales of blocks, as originals have them: mlx-lm computes with the
# values.
FLOATS = (*USUAL, "nvfp4", "fp8")


@dataclass
class Row:
    base: dict
    variants: list
    packings: tuple = USUAL
    # The model_type under which mlx-lm has the architecture, if it does not know this one.
    mlx: str = ""
    # The config is the text_config of a multimodal model, of this inner model_type.
    inside: str = ""
    # mlx-lm's class puts this in front of every tensor name, but checkpoints of this type do not
    # have it.
    strip: str = ""
    # The largest difference of two log-probabilities, unless mlx-lm differs more from itself. Say
    # in a comment where MLX itself rounds.
    tolerance: float = 5e-4
    # Paths of modules that the packing mxfp4_experts packs; the others stay bfloat16.
    experts: tuple = field(default=("experts",))


def sizes(**keys):
    """The keys of nearly every config.json. A key whose value is None is left out."""
    usual = {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3,
            "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 131,
            "rms_norm_eps": 1e-6, "max_position_embeddings": 512, "rope_theta": 1e4}
    return {key: value for key, value in {**usual, **keys}.items() if value is not None}


# Two ways to divide heads: 3 heads on 1 with a tied head, 6 on 2 with a head of its own.
NARROW = {"tie_word_embeddings": True}
WIDE = {"hidden_size": 128, "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 283,
        "tie_word_embeddings": False}
