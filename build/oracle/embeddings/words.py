"""Small tokenizers of the kinds that embedding models have."""

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
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
        vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    around = [n for n in (begin, end) if n]
    single = " ".join(filter(None, [begin, "$A", end]))
    pair = " ".join(filter(None, [begin, "$A", end, "$B", end]))
    template(t, single, pair, around)
    return fast(t, pad_token=special[0])
