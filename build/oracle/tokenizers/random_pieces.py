"""Random tokenizer.model files and what SentencePiece makes of texts, one JSON a line.

random_pieces.py SEED COUNT [small]   small: small vocabularies, and no built-in rules of
                                      normalization, whose tables have hundreds of kilobytes

A line with "refused" has a file that the library does not load. Where the library fails, a field is
null. Left out are decodings whose difference is intended: those with the unknown token, and bytes
beside a control token.
"""

import base64
import functools
import json
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb

R = random.Random(int(sys.argv[1]))
COUNT = int(sys.argv[2])
SMALL = len(sys.argv) > 3

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2

LETTERS = list("aabbcxyz") + ["é", "日", "本", "ﬁ", "①"]
OTHER = [" ", " ", "▁", "▁", "\u0301", "e", "fi", "\n", "\u00a0", "\u3000", "\u200b", "<", ">"]
SYMBOLS = [
    *("ab", "abc", "bc", "ca", "a b", " a", "a ", " ", "  ", "▁", "▁▁", "▁a", "a▁", "▁ab", "b▁▁"),
    *("é", "e\u0301", "ﬁ", "fi", "①", "①x", "x①", "日本", "x", "xx", "xxx", "\n", "\n\n"),
    *("<tool>", "<0x41>", "<s>", "\u3000", "\u00a0a", "aé", "Ａ", "a\u0301b"),
]
# Replacements: letters, spaces, nothing, and longer text in place of one or several characters.
RULES = [
    *(("é", "e"), ("e\u0301", "é"), ("ﬁ", "fi"), ("①", "1"), ("①", " 1 "), ("日", ""), ("本", " ")),
    *(("\u00a0", " "), ("\u3000", "  "), ("\u200b", ""), ("x", "yz"), ("xx", "a"), ("ab", "ba")),
    *(("abc", " a"), ("z", "▁"), ("y", "z "), ("b", "  b"), ("Ａ", "a"), ("\n", " ")),
]


@functools.cache
def charsmap(rules):
    """The table of a rule with a name, or of pairs, as the library writes it."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"normalization_rule_name": rules}
        if isinstance(rules, tuple):
            points = lambda text: " ".join(f"{ord(c):X}" for c in text)
            with open(folder + "/rules.tsv", "w") as f:
                f.writelines(f"{points(a)}\t{points(b)}\n" for a, b in rules)
            options = {"normalization_rule_tsv": folder + "/rules.tsv"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["some text"] * 20),
            model_prefix=folder + "/m",
            vocab_size=16,
            hard_vocab_limit=False,
            minloglevel=2,
            **options,
        )
        model = pb.ModelProto()
        model.ParseFromString(open(folder + "/m.model", "rb").read())
    return model.normalizer_spec.precompiled_charsmap


def rules():
    if R.random() < (0.65 if SMALL else 0.35):
        return b""
    if not SMALL and R.random() < 0.25:
        return charsmap(R.choice(["nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"]))
    return charsmap(tuple(sorted(dict(R.sample(RULES, R.randint(1, 6))).items())))


def word(longest):
    pool = LETTERS if R.random() < 0.6 else LETTERS + OTHER
    return "".join(R.choice(pool) for _ in range(R.randint(1, longest)))


def text(symbols):
    out = []
    for _ in range(R.choice([0, 1, 2, 4, 8] if SMALL else [0, 1, 2, 4, 8, 16])):
        x = R.random()
        if x < 0.45:
            out.append(word(4))
        elif x < 0.6:
            out.append(R.choice(SYMBOLS))
        elif x < 0.75 and symbols:
            out.append(R.choice(symbols))
        elif x < 0.9:
            out.append(" " * R.choice([1, 1, 1, 2, 3]))
        else:
            out.append(R.choice(["<s>", "<unk>", "<0x41>", "🙂", "\x00", "Ａｂ", "<0xE2>"]))
    return "".join(out)


def scores():
    return R.choice(
        [
            lambda: -R.random() * 10,
            lambda: round(-R.random() * 4, 1),
            lambda: float(-R.randint(1, 3)),
            lambda: -1.0,
            lambda: R.random() * 4 - 2,
            lambda: -R.random() * 0.3,
        ]
    )


def model():
    m = pb.ModelProto()
    score, unused = scores(), R.random() < 0.15
    pieces = [("<unk>", UNKNOWN)]
    pieces += [(p, CONTROL) for p in ["<s>", "</s>", "<pad>"] if R.random() < 0.7]
    fallback = R.random() < (0.12 if SMALL else 0.35)
    if fallback:
        have = 1 if R.random() < 0.97 else 0.99
        pieces += [(f"<0x{b:02X}>", BYTE) for b in range(256) if R.random() < have]
    users = R.sample(SYMBOLS, R.choice([0, 1, 2, 3, 6]))
    taken = {p for p, _ in pieces if R.random() < 0.9}
    users = [p for p in users if p not in taken]
    pieces += [(p, USER) for p in users]
    have = R.choice([1, 0.9, 0.5])
    normal = [c for c in LETTERS + OTHER if R.random() < have]
    normal += [word(R.choice([2, 3, 5])) for _ in range(R.choice([0, 10, 15 if SMALL else 40]))]
    normal += [p for p in SYMBOLS if R.random() < 0.15]
    taken = {p for p, _ in pieces}
    for p in dict.fromkeys(normal):
        if p in taken and R.random() < 0.95:
            continue  # the library refuses most files with two tokens that are spelled alike
        pieces.append((p, UNUSED if unused and R.random() < 0.3 else NORMAL))
    for kind in (UNKNOWN, BYTE, CONTROL):  # what the library may refuse
        if R.random() < 0.004:
            pieces.append((R.choice(["<unk>", "<0x41>", "<0x4a>", "a"]), kind))
    if R.random() < 0.3:
        R.shuffle(pieces)
    for p, kind in pieces:
        m.pieces.add(piece=p, score=score() if kind in (NORMAL, UNUSED) else 0.0, type=kind)
    t, n = m.trainer_spec, m.normalizer_spec
    t.model_type = R.choice([UNIGRAM, BPE])
    t.byte_fallback = fallback
    t.treat_whitespace_as_suffix = R.random() < 0.15
    n.add_dummy_prefix = R.random() < 0.6
    n.remove_extra_whitespaces = R.random() < 0.5
    n.escape_whitespaces = R.random() < 0.85
    n.precompiled_charsmap = rules()
    return m, users


def attempt(f):
    try:
        return f()
    except Exception:
        return None


def comparable(kinds):
    """Whether the decoding of tokens of these kinds has no intended difference."""
    pairs = list(zip(kinds, kinds[1:]))
    return UNKNOWN not in kinds and (BYTE, CONTROL) not in pairs


def vector(sp, m, text):
    ids = attempt(lambda: sp.encode(text))
    decode = ids
    if ids is None or R.random() < 0.5:
        decode = [R.randrange(len(m.pieces)) for _ in range(R.randint(1, 8))]
        if R.random() < 0.5:
            normal = [i for i in decode if m.pieces[i].type not in (UNKNOWN, CONTROL)]
            decode = normal or decode
    kinds = [m.pieces[i].type for i in decode]
    shown = attempt(lambda: sp.decode(decode)) if comparable(kinds) else None
    v = {"text": text, "ids": ids, "decode": decode, "decoded_skip": shown}
    if CONTROL not in kinds:
        v["decoded"] = shown
    return v


for _ in range(COUNT):
    m, users = model()
    data = m.SerializeToString()
    line = {"kind": "sentencepiece", "data": base64.b64encode(data).decode()}
    sp = attempt(lambda: sentencepiece.SentencePieceProcessor(model_proto=data))
    if sp is None:
        line["refused"] = True
    else:
        line["vectors"] = [vector(sp, m, text(users)) for _ in range(5 if SMALL else 16)]
    print(json.dumps(line))
