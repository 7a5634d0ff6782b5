"""Makes the reference vectors: vectors_<name>.json beside this file.

Each holds a small byte-level BPE tokenizer.json, trained on the sentences below,
and what Hugging Face's tokenizers makes of a few hundred texts: hand-picked ones
and random mixtures of what is hard (contractions, marks, digits, line breaks,
spaces, decomposed letters, emoji, right-to-left scripts, added tokens).

    pip install tokenizers==0.23.3 && python make_vectors.py
"""

import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

HERE = pathlib.Path(__file__).parent
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SENTENCES = [
    "The cache holds what the model has read, so it needn't read it again.",
    "We'll see that they've moved 1234 blocks; it's fine, isn't it? I'd say so.",
    "  for i in range(100):\n\t\tprint(i)\r\n\r\n\n    return x   \n",
    "Größe, café, naïve, señor, Ελλάδα, Москва, привет мир",
    "日本語のテキスト。漢字とカタカナ。 中文文本，标点。 한국어 텍스트",
    "مرحبا بالعالم שלום עולם हिन्दी में पाठ ไทย",
    "👩‍👩‍👧 🇩🇪 🙂 ✨✨ ½ ² Ⅷ ٣٤",
    "{\"key\": [1, 2.5, null], \"other\": \"value\"}\n</div><p>",
]

PIECES = (
    ["'s", "'S", "'t", "'re", "'VE", "'m", "'ll", "'lL", "'d", "'", "''", "'x", "\u2019s", "'\u017f"]
    + [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\u200b", "\u200d"]
    + ["a", "the", "The", "Hello", "world", "model", "it", "don", "I", "Z", "x", "naïve", "Größe", "ﬁ", "ǅ", "ʰ", "ª"]
    + ["e\u0301", "\u0301", "\u0301\u0300", "a\u0323\u0302", "\u0345", "\u094d", "\u20dd", "\u1ab0", "\u034f", "Å", "\u212b", "\u1100\u1161\u11a8", "\u0958", "\u2126"]
    + ["हिन्दी", "में", "ไทย", "שלום", "مرحبا", "日本", "語", "テキ", "한국", "中文", "。", "，", "Привет", "Ωmega"]
    + ["0", "7", "42", "1234", "3.14", "٣", "½", "²", "Ⅷ", "५", "𝟗"]
    + ["!", "?", ".", ",", "...", "--", "==", "{}", "()", "/", "</a>", "_", "@", "#", "\\", "\"", "«", "…", "€", "+"]
    + ["🙂", "👩‍👩‍👧", "🇩🇪", "✨", "\ufe0f", "\U000e0041", "\x00", "\x7f", "\ufffd", "\ufeff", "\ue000", "\U0010ffff", "\u0378", "𐍈", "𝒜"]
)
# New in Unicode 15.1 and 16: only the hand-written scanners know them.
LATEST = ["\U0002ebf0", "\u1c89", "\ua7dc", "\u0897", "\U000113b8", "\U00010d40"]
TOKENS = ["<|bos|>", "<|im_end|>", "<think>", "<mask>", "<r>", "word", "<|im", "ñ", "<N>", " word ", "words", "keyword"]

HAND = [
    "", " ", "  ", "\n", "\r\n", " \n ", "a ", " a", "  a", "   a", "\n\n a", " \n\n  x\n", "a\n \n b", "\t\ta", "a\u3000\u3000b",
    "'s", "I's", "it'S", "'\u017f", "'\u017fa", "a'\u017f", "'l", "'r", "'v e", "''s", "'sa", "1's", "x' s",
    "\u0301", " \u0301", "\u0301a", "!\u0301a", "a\u0301\u0301b", "1\u0301", "\n\u0301", "\u0301\u0301", " \u0301\u0301 ", "!\u0301!", " !\u0301",
    "123456", " 1", "1 2", "１２", "a1b2", "½½½", "1,000.50",
    "!!!\n\n", " !!!\r\n x", "!\n!", " ! ", "!?\n \n", "\u00a0!", "\u00a0a", "\ta", "\u200ba", "a\u200db",
    "x" + "\u0301" * 40 + "y", "a" + "\u0323\u0301" * 33, "\u1100\u1161\u11a8" * 3, "e\u0301" * 20,
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "thethethethethethethethethethethethethethethethethethethethethethethethethethethethe",
    "a<think>b", "<think> </think>", "<|im_end|><|im_end|>", "<|im", "<|im_end|", "a  <mask>  b", "<mask><mask>", "x <r> <r>  y",
    "word", "words", "a word b", "a words", "keyword", "_word", "word\u0301", "(word)", "word word", "word1", "\u200dword", "Ⓐword",
    "ñ", "n\u0303", "man\u0303ana", "<N>", "  <N>", "<r> word", "<mask> word <r>",
]


def texts(rng, count, latest):
    out = list(HAND)
    for i in range(count):
        pool = (PIECES if i % 3 else PIECES + TOKENS * 3) + list(latest)
        out.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 14))))
    return out


def build(name, pre_tokenizer, normalizer=None, template=None, ignore_merges=False, unk=None, alphabet=True, strings=False, normalized=True, latest=()):
    tok = Tokenizer(models.BPE(ignore_merges=ignore_merges, unk_token=unk, fuse_unk=unk is not None))
    tok.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tok.normalizer = normalizer
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=620,
        min_frequency=1,
        show_progress=False,
        special_tokens=[unk] if unk else [],
        initial_alphabet=pre.ByteLevel.alphabet() if alphabet else [],
    )
    tok.train_from_iterator(SENTENCES, trainer)
    tok.add_special_tokens(["<|bos|>", "<|im_end|>", AddedToken("<mask>", lstrip=True, special=True), AddedToken("<r>", rstrip=True, special=True)])
    tok.add_tokens([AddedToken("<think>", normalized=False), AddedToken("word", single_word=True), AddedToken("ñ", normalized=True), AddedToken("<N>", normalized=True, lstrip=True, rstrip=True)])
    if template:
        bos = tok.token_to_id("<|bos|>")
        end = tok.token_to_id("<|im_end|>")
        tok.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=template, special_tokens=[("<|bos|>", bos), ("<|im_end|>", end)]),
        ])
    spec = json.loads(tok.to_str())
    if strings:
        spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]
    if not normalized:
        # Decoding shows such tokens in normalized form (Prepend), and one outside
        # vocab as if it were spelled in bytes; the Go package deliberately does not.
        spec["added_tokens"] = [t for t in spec["added_tokens"] if not t["normalized"]]
    tok = Tokenizer.from_str(json.dumps(spec))

    vectors = []
    for text in texts(random.Random(name), 260, latest):
        ids = tok.encode(text, add_special_tokens=False).ids
        v = {"text": text, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False)}
        if template:
            v["with_special"] = tok.encode(text, add_special_tokens=True).ids
        skipped = tok.decode(ids, skip_special_tokens=True)
        if skipped != v["decoded"]:
            v["decoded_skip"] = skipped
        vectors.append(v)
    rows = ",\n".join(json.dumps(v, ensure_ascii=True) for v in vectors)
    text = '{"tokenizer": %s,\n"vectors": [\n%s\n]}\n' % (json.dumps(spec, ensure_ascii=True), rows)
    (HERE / f"vectors_{name}.json").write_text(text)
    print(name, len(vectors), len(text))


def split(pattern, behavior="isolated", invert=False):
    return pre.Split(pattern, behavior, invert)


BYTES = pre.ByteLevel(add_prefix_space=False, use_regex=False)

if __name__ == "__main__":
    build("qwen2", pre.Sequence([split(Regex(QWEN2)), BYTES]), normalizers.NFC(), strings=True, latest=LATEST)
    build("qwen3_5", pre.Sequence([split(Regex(QWEN35)), BYTES]), normalizers.NFC(), latest=LATEST)
    build("llama3", pre.Sequence([split(Regex(LLAMA3)), BYTES]), template="<|bos|> $A", ignore_merges=True, latest=LATEST)
    build("o200k", pre.Sequence([split(Regex(O200K)), BYTES]), template="<|bos|> $A <|im_end|>")
    build("gpt2", pre.ByteLevel(add_prefix_space=True, use_regex=True), strings=True)
    build("digits", pre.Sequence([pre.Digits(individual_digits=True), split(" ", "merged_with_next"), BYTES]))
    build(
        "mixed",
        pre.Sequence([pre.Digits(individual_digits=False), split(".", "removed"), split(Regex(r"\s+"), "merged_with_previous"), split(Regex(r"\p{Lu}"), "contiguous", True), pre.ByteLevel(add_prefix_space=True, use_regex=False)]),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace("--", "—"), normalizers.Replace(Regex("[=]+"), "~"), normalizers.Prepend("^")]),
        normalized=False,
    )
    build("unknown", pre.Sequence([split(Regex(QWEN2)), BYTES]), unk="<unk>", alphabet=False, normalized=False)
