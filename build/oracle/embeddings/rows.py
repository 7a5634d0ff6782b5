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

SMALL = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2)
GROUPED = dict(num_key_value_heads=1, head_dim=32)


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


def bert(folder, pooling="cls", *more):
    """bge: the first token, normalized."""
    t = words.word_piece()
    c = hf.BertConfig(vocab_size=t.vocab_size, max_position_embeddings=512, **SMALL)
    return sentences(save(hf.BertModel(c), t, folder), pooling, *(more or [Normalize()]))


def bert_mean(folder):
    """e5 and all-MiniLM: the mean of all tokens, here with a Dense module and without Normalize."""
    return bert(folder, "mean", Dense(32, 24))


def xlm_roberta(folder):
    """multilingual-e5: positions begin after that of the padding token."""
    t = words.unigram()
    c = hf.XLMRobertaConfig(vocab_size=t.vocab_size, max_position_embeddings=514, type_vocab_size=1,
                            pad_token_id=1, bos_token_id=0, eos_token_id=2, **SMALL)
    return sentences(save(hf.XLMRobertaModel(c), t, folder), "mean", Normalize())


def xlm_roberta_classifier(folder):
    """bge-reranker."""
    t = words.unigram()
    c = hf.XLMRobertaConfig(vocab_size=t.vocab_size, max_position_embeddings=514, type_vocab_size=1,
                            pad_token_id=1, bos_token_id=0, eos_token_id=2, num_labels=1, **SMALL)
    return CrossEncoder(save(hf.XLMRobertaForSequenceClassification(c), t, folder), device="cpu")


def modernbert_config(t, **keys):
    return hf.ModernBertConfig(
        vocab_size=t.vocab_size, max_position_embeddings=512, local_attention=16,
        global_attn_every_n_layers=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        cls_token_id=1, sep_token_id=2, **{**SMALL, "num_hidden_layers": 5, **keys})


def modernbert_tokens():
    return words.byte_level(["[PAD]", "[CLS]", "[SEP]"], begin="[CLS]", end="[SEP]")


def modernbert(folder):
    """modernbert-embed: windows on both sides, and the mean."""
    t = modernbert_tokens()
    return sentences(save(hf.ModernBertModel(modernbert_config(t)), t, folder), "mean", Normalize())


def modernbert_classifier(folder):
    """gte-reranker-modernbert."""
    t = modernbert_tokens()
    m = hf.ModernBertForSequenceClassification(
        modernbert_config(t, num_labels=1, classifier_pooling="mean"))
    return CrossEncoder(save(m, t, folder), device="cpu")


def gemma3_text(folder):
    """EmbeddingGemma: Gemma 3 with attention in both directions, and two Dense modules."""
    t = words.byte_level(["<pad>", "<eos>", "<bos>"], begin="<bos>", end="<eos>")
    c = hf.Gemma3TextConfig(vocab_size=t.vocab_size, max_position_embeddings=512, sliding_window=16,
                            sliding_window_pattern=3, use_bidirectional_attention=True,
                            query_pre_attn_scalar=32,
                            **{**SMALL, **GROUPED, "num_hidden_layers": 4})
    sliding, full = "sliding_attention", "full_attention"
    c.layer_types = [sliding, sliding, full, sliding]
    return sentences(save(hf.Gemma3TextModel(c), t, folder), "mean",
                     Dense(32, 48, bias=False, activation_function=None),
                     Dense(48, 32, bias=False, activation_function=None), Normalize())


def qwen3_reranker(folder):
    """Qwen3-Reranker: the logits of yes and no."""
    t = words.byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    c = hf.Qwen3Config(vocab_size=t.vocab_size, max_position_embeddings=1024,
                       tie_word_embeddings=True, **SMALL, **GROUPED)
    body = Transformer(save(hf.Qwen3ForCausalLM(c), t, folder), transformer_task="text-generation")
    return CrossEncoder(modules=[body, LogitScore(260, 270)], device="cpu")


ROWS = {f.__name__: f for f in (
    bert, bert_mean, gemma3_text, modernbert, modernbert_classifier, qwen3, qwen3_reranker,
    xlm_roberta, xlm_roberta_classifier)}
