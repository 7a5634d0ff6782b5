"""The rows of the oracle: small embedding models and rerankers with random weights.

A row is a function that returns a SentenceTransformer or a CrossEncoder. Every architecture of
engine/models that makes vectors or scores needs one, and a row for each way in which checkpoints of
it differ: the pooling, the modules after it, and keys of config.json that change the layers.
"""

import torch
import transformers as hf
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import Pooling

import words

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4)
GROUPED = dict(num_key_value_heads=2, head_dim=32)


def scatter(model, deviation=0.2):
    """Gives every tensor random values, also the norms and biases that begin as ones and zeros."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            ones = "norm" in name.lower() and name.endswith("weight")
            p.copy_(torch.randn_like(p) * deviation + (1 if ones else 0))
    return model


def save(model, tokenizer, folder):
    scatter(model).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def sentences(folder, pooling, *more, **options):
    body = Transformer(folder, **options)
    width = body.get_embedding_dimension()
    return SentenceTransformer(modules=[body, Pooling(width, pooling), *more], device="cpu")


def qwen3(folder):
    """Qwen3-Embedding: the last token of a language model without a head."""
    t = words.byte_level(["<|endoftext|>", "<|im_end|>"], end="<|endoftext|>")
    c = hf.Qwen3Config(vocab_size=t.vocab_size + 2, max_position_embeddings=512, **SMALL, **GROUPED)
    return sentences(save(hf.Qwen3Model(c), t, folder), "lasttoken", Normalize())


ROWS = {"qwen3": qwen3}
