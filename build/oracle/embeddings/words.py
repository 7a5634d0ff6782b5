"""Small tokenizers of the kinds that embedding models have."""

from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)
from transformers import PreTrainedTokenizerFast

TEXTS = [
    "a", "What is the capital of China?", "The capital of China is Beijing.",
    "Gravity is a force that attracts two bodies towards each other.",
    "Füße, naïve café: 東京 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 🙂\n\tx",
    "numbers 123456789 and 3.14159, (punctuation)!? -- \"quotes\"",
    "The quick brown fox jumps over the lazy dog. " * 9,
]


def fast(t, **special):
    return PreTrainedTokenizerFast(tokenizer_object=t, model_max_length=512, **special)


def template(t, single, pair, names):
    t.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(n, t.token_to_id(n)) for n in names])


def byte_level(special, end="", begin=""):
    """A byte-level BPE with a few merges, as of Qwen and ModernBERT."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    around = [n for n in (begin, end) if n]
    single = " ".join(filter(None, [begin, "$A", end]))
    pair = " ".join(filter(None, [begin, "$A", end, "$B", end]))
    template(t, single, pair, around)
    return fast(t, pad_token=special[0])


def word_piece():
    """The WordPiece of BERT."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(TEXTS, trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=special, show_progress=False))
    template(t, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ["[CLS]", "[SEP]"])
    return fast(t, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def unigram():
    """The Unigram of XLM-RoBERTa, with special tokens where that has them."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(TEXTS * 20, trainers.UnigramTrainer(
        vocab_size=160, special_tokens=special, unk_token="<unk>", show_progress=False))
    template(t, "<s> $A </s>", "<s> $A </s> </s> $B </s>", ["<s>", "</s>"])
    return fast(t, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                cls_token="<s>", sep_token="</s>")
