"""Random tokenizer.json files and what Hugging Face's tokenizers makes of texts, one JSON a line.

random_tokenizers.py SEED COUNT [MODEL,...]

Where the reference fails, a field is null. Left out are files in which two added tokens are equal
when they are normalized, because the reference then depends on a hash.
"""

import base64
import functools
import json
import random
import sys
import tempfile

from tokenizers import Tokenizer

KINDS = (
    sys.argv[3].split(",")
    if len(sys.argv) > 3
    else list(("BPE", "Unigram", "WordLevel", "WordPiece"))
)
R = random.Random(int(sys.argv[1]))
COUNT = int(sys.argv[2])

LETTERS = list("abcdeABxyz") + ["é", "ñ", "日", "本", "語", "ж", "ß", "İ", "ǅ"]
OTHER = [
    " ",
    "  ",
    "\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\u200b",
    "▁",
    "▁▁",
    "'",
    "'s",
    "'ll",
    ".",
    ",",
    "!",
    "-",
    "--",
    "_",
    "#",
    "##",
    "<",
    ">",
    "<s>",
    "</s>",
    "<0x41>",
    "<unk>",
    "0",
    "1",
    "42",
    "½",
    "٣",
    "Ⅷ",
    "e\u0301",
    "\u0301",
    "a\u0323\u0302",
    "ﬁ",
    "Å",
    "①",
    "ｱ",
    "Ａ",
    "™",
    "…",
    "🙂",
    "👩‍👩‍👧",
    "\u0345",
    "\u00ad",
    "\ufeff",
    "\x00",
    "\x01",
    "\x7f",
    "\x85",
    "\u1100\u1161",
    "각",
    "क्ष",
    "ไทย",
    "ー",
    "カ",
    "ひ",
    "漢",
    "𝒜",
    "\U0010ffff",
    "</w>",
    "[UNK]",
    "[CLS]",
    "|",
    "Ġ",
    "Ċ",
    "ł",
    "don't",
    " n't",
    " do not",
    "ab",
    "abc",
    "bc",
    "<mask>",
    "tok",
]


def word():
    return "".join(R.choice(LETTERS) for _ in range(R.randint(1, 3)))


def text():
    out = []
    for _ in range(R.choice([0, 1, 2, 5, 12, 12, 30])):
        out.append(
            word() if R.random() < 0.55 else R.choice(OTHER) if R.random() < 0.8 else " "
        )
    return "".join(out)


REGEXES = [
    r"\s+",
    r"\d",
    r"\p{L}+",
    r"[aeé]",
    r"\w+|[^\w\s]+",
    r"(?=b)",
    r" ?\p{L}+| ?\p{N}+|\s+",
    r"ab|a",
    r"x*",
]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def pattern(empty=True):
    return (
        {"Regex": R.choice(REGEXES if empty else REGEXES[:-1])}
        if R.random() < 0.5
        else {"String": R.choice([" ", "a", "--", "▁", "ab", ".", "é", "'"])}
    )


def normalizer(depth=0):
    k = R.choice(
        [
            "NFC",
            "NFD",
            "NFKC",
            "NFKD",
            "Lowercase",
            "StripAccents",
            "Strip",
            "Replace",
            "Prepend",
            "BertNormalizer",
            "Nmt",
            "ByteLevel",
            "Sequence",
            "Sequence",
            "llama",
        ]
    )
    if k == "llama":
        return {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        }
    if k == "Sequence":
        return (
            {
                "type": "Sequence",
                "normalizers": [normalizer(depth + 1) for _ in range(R.randint(0, 3))],
            }
            if depth < 2
            else {"type": "NFC"}
        )
    n = {"type": k}
    if k == "Strip":
        n |= {"strip_left": R.random() < 0.5, "strip_right": R.random() < 0.5}
    if k == "Replace":
        n |= {"pattern": pattern(False), "content": R.choice(["", "▁", "x", "ab", " "])}
    if k == "Prepend":
        n |= {"prepend": R.choice(["▁", "ab", " "])}
    if k == "BertNormalizer":
        n |= {
            "clean_text": R.random() < 0.5,
            "handle_chinese_chars": R.random() < 0.5,
            "strip_accents": R.choice([None, True, False]),
            "lowercase": R.random() < 0.5,
        }
    return n


def pre(depth=0, firsts=True):
    k = R.choice(
        [
            "ByteLevel",
            "ByteLevel",
            "Metaspace",
            "Metaspace",
            "Split",
            "Split",
            "Whitespace",
            "WhitespaceSplit",
            "Punctuation",
            "Digits",
            "BertPreTokenizer",
            "CharDelimiterSplit",
            "UnicodeScripts",
            "FixedLength",
            "Sequence",
            "Sequence",
            "Sequence",
        ]
    )
    if k == "Sequence":
        return (
            {
                "type": "Sequence",
                "pretokenizers": [pre(depth + 1, False) for _ in range(R.randint(0, 3))],
            }
            if depth < 2
            else {"type": "Whitespace"}
        )
    p = {"type": k}
    if k == "ByteLevel":
        p |= {
            "add_prefix_space": R.random() < 0.5,
            "trim_offsets": True,
            "use_regex": R.random() < 0.5,
        }
    if k == "Metaspace":
        p |= {
            "replacement": R.choice(["▁", "▁", "_"]),
            "prepend_scheme": R.choice(["always", "never"] + (["first"] if firsts else [])),
            "split": R.random() < 0.7,
        }
    if k == "Split":
        p |= {"pattern": pattern(), "behavior": R.choice(BEHAVIORS), "invert": R.random() < 0.3}
    if k == "Punctuation":
        p |= {"behavior": R.choice(BEHAVIORS)}
    if k == "Digits":
        p |= {"individual_digits": R.random() < 0.5}
    if k == "CharDelimiterSplit":
        p |= {"delimiter": R.choice([" ", "a", "▁"])}
    if k == "FixedLength":
        p |= {"length": R.randint(1, 6)}
    return p


def decoder(depth=0):
    k = R.choice(
        [
            "ByteLevel",
            "Metaspace",
            "WordPiece",
            "BPEDecoder",
            "CTC",
            "Fuse",
            "Strip",
            "Replace",
            "ByteFallback",
            "Sequence",
            "llama",
            "llama",
        ]
    )
    if k == "llama":
        return {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        }
    if k == "Sequence":
        return (
            {
                "type": "Sequence",
                "decoders": [decoder(depth + 1) for _ in range(R.randint(0, 4))],
            }
            if depth < 2
            else {"type": "Fuse"}
        )
    d = {"type": k}
    if k == "ByteLevel":
        d |= {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    if k == "Metaspace":
        d |= {
            "replacement": R.choice(["▁", "_"]),
            "prepend_scheme": R.choice(["always", "never", "first"]),
            "split": True,
        }
    if k == "WordPiece":
        d |= {"prefix": "##", "cleanup": R.random() < 0.5}
    if k == "BPEDecoder":
        d |= {"suffix": R.choice(["</w>", "a"])}
    if k == "CTC":
        d |= {
            "pad_token": R.choice(["<pad>", "a"]),
            "word_delimiter_token": "|",
            "cleanup": R.random() < 0.5,
        }
    if k == "Strip":
        d |= {
            "content": R.choice([" ", "a", "▁"]),
            "start": R.randint(0, 2),
            "stop": R.choice([0, 0, 0, 1]),
        }
    if k == "Replace":
        d |= {"pattern": pattern(), "content": R.choice(["", " ", "x", "ab"])}
    return d


def alphabet():
    bs = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    cs = bs[:]
    n = 0
    for b in range(256):
        if b not in bs:
            bs.append(b)
            cs.append(256 + n)
            n += 1
    return dict(zip(bs, map(chr, cs)))


ALPHA = alphabet()


def bpe():
    tokens = []
    style = R.choice(["bytes", "text", "text", "spm", "spm"])
    merges = []
    spell = lambda s: "".join(ALPHA[b] for b in s.encode())
    prefix = suffix = None
    if style == "text" and R.random() < 0.3:
        prefix = R.choice([None, "##", "@"])
        suffix = R.choice([None, "</w>", "$"])
    if style == "bytes":
        tokens = [c for c in ALPHA.values() if R.random() < 0.995 or R.random() < 0.5]
        base = [spell(x) for x in LETTERS + OTHER[:40]] + tokens[:]
    else:
        base = [c for c in sorted(set("".join(LETTERS + OTHER))) if R.random() < 0.8]
        tokens = base[:]
        if prefix:
            tokens += [prefix + c for c in base if R.random() < 0.8]
        if suffix:
            tokens += [c + suffix for c in tokens if R.random() < 0.5]
    bf = R.random() < (0.8 if style == "spm" else 0.15)
    if bf or R.random() < 0.2:
        have = R.choice([1, 1, 1, 0.9])
        tokens += [f"<0x{b:02X}>" for b in range(256) if R.random() < have]
    unk = None
    if R.random() < 0.7:
        unk = R.choice(["<unk>", "[UNK]"])
        tokens.append(unk)
    tokens = list(dict.fromkeys(tokens))
    have = set(tokens)
    pool = [t for t in tokens if len(t) < 4]
    # merges: from words split at random points
    for _ in range(R.choice([0, 20, 80])):
        if style == "bytes":
            a, b = R.choice(pool), R.choice(pool)
        else:
            a, b = R.choice(pool), R.choice(pool)
            if R.random() < 0.5:
                a = R.choice(
                    [x for x in pool if x in LETTERS or x == "▁" or len(x) > 1] or pool
                )
                b = R.choice([x for x in pool if x in LETTERS or len(x) > 1] or pool)
        if a == unk or b == unk:
            continue
        if prefix and not b.startswith(prefix):
            continue
        c = a + (b[len(prefix) :] if prefix else b)
        if len(c.encode()) > 12:
            continue
        if c not in have:
            have.add(c)
            tokens.append(c)
        merges.append([a, b])
        pool.append(c)
        pool.append(c)
    extra = [w for w in (word() for _ in range(10)) if w not in have]
    tokens += list(dict.fromkeys(extra))
    R.shuffle(tokens)
    m = {
        "type": "BPE",
        "dropout": None,
        "unk_token": unk,
        "continuing_subword_prefix": prefix,
        "end_of_word_suffix": suffix,
        "fuse_unk": R.random() < 0.5,
        "byte_fallback": bf,
        "ignore_merges": R.random() < 0.25,
        "vocab": {t: i for i, t in enumerate(tokens)},
        "merges": merges,
    }
    return m, len(tokens), tokens


def wordpiece():
    tokens = ["[UNK]", "[CLS]", "[SEP]"]
    for _ in range(150):
        w = word() if R.random() < 0.7 else R.choice(OTHER)
        tokens.append(w)
        tokens.append("##" + (word() if R.random() < 0.7 else R.choice(OTHER)))
    tokens += LETTERS + ["##" + c for c in LETTERS]
    tokens = list(dict.fromkeys(t for t in tokens if R.random() < 0.93 or t == "[UNK]"))
    return (
        {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": R.choice([100, 5]),
            "vocab": {t: i for i, t in enumerate(tokens)},
        },
        len(tokens),
        tokens,
    )


def wordlevel():
    tokens = ["<unk>"] + [word() for _ in range(100)] + OTHER + LETTERS
    tokens = list(dict.fromkeys(tokens))
    return (
        {
            "type": "WordLevel",
            "unk_token": "<unk>",
            "vocab": {t: i for i, t in enumerate(tokens)},
        },
        len(tokens),
        tokens,
    )


def unigram():
    tokens = (
        ["<unk>"]
        + ["▁" + word() for _ in range(40)]
        + [word() for _ in range(60)]
        + LETTERS
        + [c for c in OTHER if R.random() < 0.5]
    )
    bf = R.random() < 0.4
    if bf:
        tokens += [f"<0x{b:02X}>" for b in range(256)]
    tokens = list(dict.fromkeys(tokens))
    scores = R.choice(
        [
            lambda: round(-R.random() * 10, 3),
            lambda: float(-R.randint(1, 4)),
            lambda: R.random() * -8,
        ]
    )
    return (
        {
            "type": "Unigram",
            "unk_id": 0,
            "byte_fallback": bf,
            "vocab": [[t, 0.0 if i == 0 else scores()] for i, t in enumerate(tokens)],
        },
        len(tokens),
        tokens,
    )


MODELS = {"BPE": bpe, "WordPiece": wordpiece, "WordLevel": wordlevel, "Unigram": unigram}


@functools.cache
def charsmap(rule):
    """A precompiled_charsmap, as SentencePiece writes it."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["some text"] * 20),
            model_prefix=folder + "/m",
            vocab_size=16,
            hard_vocab_limit=False,
            normalization_rule_name=rule,
            minloglevel=2,
        )
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(open(folder + "/m.model", "rb").read())
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def config():
    m, n, tokens = MODELS[R.choice(KINDS)]()
    added = []
    contents = ["<s>", "</s>", "<mask>", "tok", "<unk>", "ab c", " x", "é", "Tok", "--", "▁▁"]
    R.shuffle(contents)
    for c in contents[: R.choice([0, 0, 2, 5])]:
        i = (
            m["vocab"].get(c)
            if isinstance(m["vocab"], dict)
            else next((i for i, t in enumerate(tokens) if t == c), None)
        )
        if i is None:
            i = n
            n += 1
        special = R.random() < 0.5
        added.append(
            {
                "id": i,
                "content": c,
                "single_word": R.random() < 0.2,
                "lstrip": R.random() < 0.2,
                "rstrip": R.random() < 0.2,
                "normalized": R.random() < 0.3,
                "special": special,
            }
        )
    added.sort(key=lambda a: a["id"])
    post = None
    x = R.random()
    some = lambda: (lambda i: (tokens[i], i))(R.randrange(len(tokens)))
    if x < 0.3:
        a, b = some(), some()
        post = {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": a[0], "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ]
            + ([{"SpecialToken": {"id": b[0], "type_id": 0}}] if R.random() < 0.5 else []),
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (a, b)},
        }
    elif x < 0.4:
        post = {"type": "BertProcessing", "sep": list(some()), "cls": list(some())}
    elif x < 0.5:
        post = {
            "type": "RobertaProcessing",
            "sep": list(some()),
            "cls": list(some()),
            "trim_offsets": True,
            "add_prefix_space": True,
        }
    if post and R.random() < 0.3:
        post = {
            "type": "Sequence",
            "processors": [
                {
                    "type": "ByteLevel",
                    "add_prefix_space": True,
                    "trim_offsets": False,
                    "use_regex": True,
                },
                post,
            ],
        }
    norm = normalizer() if R.random() < 0.6 else None
    if m["type"] == "Unigram" and R.random() < 0.3:
        norm = {
            "type": "Precompiled",
            "precompiled_charsmap": charsmap(
                R.choice(["nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"])
            ),
        }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": norm,
        "pre_tokenizer": pre() if R.random() < 0.75 else None,
        "post_processor": post,
        "decoder": decoder() if R.random() < 0.9 else None,
        "model": m,
    }


def attempt(f):
    try:
        return f()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of the reference
        return None


done = 0
while done < COUNT:
    c = config()
    try:
        tok = Tokenizer.from_str(json.dumps(c))
    except Exception:
        continue
    forms = [
        (
            tok.normalizer.normalize_str(a["content"])
            if a["normalized"] and tok.normalizer
            else a["content"]
        )
        for a in c["added_tokens"]
    ]
    if "" in forms or len(set(forms)) < len(forms):
        continue  # the reference then depends on a hash, or matches nothing
    done += 1
    vectors = []
    for _ in range(12):
        t = text()
        e = attempt(lambda: tok.encode(t, add_special_tokens=False).ids)
        s = attempt(lambda: tok.encode(t, add_special_tokens=True).ids)
        ids = (
            e
            if e is not None and R.random() < 0.6
            else [R.randrange(tok.get_vocab_size() + 2) for _ in range(R.randint(1, 8))]
        )
        vectors.append(
            {
                "text": t,
                "ids": e,
                "with_special": s,
                "decode": ids,
                "decoded": (
                    attempt(lambda: tok.decode(ids, skip_special_tokens=False)) if ids else None
                ),
                "decoded_skip": (
                    attempt(lambda: tok.decode(ids, skip_special_tokens=True)) if ids else None
                ),
            }
        )
    print(json.dumps({"tokenizer": c, "vectors": vectors}))
