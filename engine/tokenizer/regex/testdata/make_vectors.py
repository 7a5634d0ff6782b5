"""Makes the reference vectors: vectors.json and classes.json beside this file.

vectors.json has, for each expression and text, the matches that Oniguruma finds in Hugging Face's
tokenizers, or null for an expression that it refuses. classes.json has the characters of classes as
ranges.

    pip install tokenizers==0.23.3 && python make_vectors.py
"""

import json
import pathlib
import random

from tokenizers import Regex, pre_tokenizers as pre

HERE = pathlib.Path(__file__).parent

KNOWN = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen3_5": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek_v3": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek_cjk": r"[一-龥぀-ゟ゠-ヿ]+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "exaone": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?:\p{Pc}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    "thousands": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "starcoder": r"\p{N}|[^\p{N}]+",
    "groups3": r"(?=(\d{3})+(?!\d))|\d{1,3}|[^\d]+",
}
PIECES = list("ab's\n\r \t1239.,!?|()[]/_-") + "'S|'re|'VE| a|  |\r\n|Hello|WORLD|Ǆǅ|ʰª|é|\u0301|हिन्दी|ไทย|日本|テキ|한국|中|1234567|½|Ⅷ|٣|…|。|\u00a0|\u2003|\u0085|\u200d|🙂|\u017f|\u212a|\x00|\ufffd|_x|‿|$|€".split("|")

rng = random.Random(16)
TEXTS = ["", "I'LL say: 1,234 \u0301a\n \r\n  x", "a  ", " !\r\n\n x", "it's 1234567 'ſx", "x_y‿z  \n\n\n  a"]
TEXTS += ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 25))) for _ in range(120)]

SMALL = [r"a{1,3}+", r"a{1,2}+a", r"a$", r"^a", r"^", r"a.", r"(?m)a.", r"(?m:a.)b?", r"a{,2}", r"a{0}b", r"(a*)*b", r"(?:|a)+b", r"(?:a|b*)*c",
    r"(?:a*)+", r"(?:a?)*?b", r"(?:a?){3}b", r"(?:a??b?)*c", r"(?:a|ab)(?:c|bcd)", r"[]a]", r"[a-b-c]+", r"[a-]+", r"[-a]+", r"[a&&b]|c", r"[^a&&b]", r"[a-c&&[^b]]+", r"[a-c&&b-d&&c]", r"[^a[^b]]",
    r"[[:alpha:]]+", r"[[:^alpha:]]+", r"[[:punct:]]+", r"\p{Alpha}+", r"\p{^L}+", r"\P{L}+", r"\p{lu}+", r"\p{Uppercase_Letter}", r"\p{LC}+", r"\p{Cn}", r"\p{Any}", r"\w+", r"\W+", r"\d+", r"\h+", r"\H+", r"\s+\S",
    r"(?i)k+", r"(?i:S)s", r"(?i:[a-c])+", r"(?i:[^a])+", r"(?i)\p{Lu}+", r"a(?i)b|c", r"(a(?i)b|c)d", r"(?i-m:A)b", r"(?x) a b # c", r"(?<=a)b", r"(?<!a)b", r"(?<=ab|c)a", r"(?<!ab)b", r"(?<=a)(?<=b)", r"a(?=b)", r"a(?!b)", r"a(?=b+c)", r"(?=a.*c)b|a", r"(?!ab)a", r"(?=(?!ab)a)a|b",
    r"a*", r"a*?", r"a+?b", r"a??b", r"b|", r"|b", r"a{2}{3}", r"a**", r"a{", r"a{1", r"a{x}", r"]", r"}", r"\Aa", r"a\z", r"a\Z", r"\ba", r"\Ba", r"\b", r"(?<n>a)b", r"(?'n'a)b", r"(?#c)a", r"a++", r"a*+a", r"a?+a", r"a?+ab", r"a+?+b", r"a{2,3}?", r"a{2}?",
    r"\x{62}|\u0063|\x61", r"\07|\0", r"\a|\e|\f|\v|\t", r"\_|\-", r"[\b]", r"[\x61-\x63]+", r"[\p{L}\d_]+", r"[\w&&\D]+", r"[^\s\S]", r"[\s\S]", r"\N+", r"\O", r"(ab|a)(bc|c)?", r"(?:ab|a|abc)+c", r"(a+)+$", r"(a|aa)+$", r"(a*)*$b", r"(?:a|b|ab)*?c", r"x*y*z*a", r"(?:x+x+)+y|a",
    # repetition of what can be empty
    r"$|(?:1{,2})(?:[ab]*+|\s)*", r"(?:(?:b{,2}|\s|.)*)(?:c\s{2,}|(?:(?!a+b)|(?!a)))", r"(?:\s|(\s*+[^a]*?)*?|a*(?<=ab))*", r"(?:a|b{,2}|c?)+", r"(?:|a|b)*c", r"(?:a??|b)*?c", r"(?:(?:a?)*b?)*c",
    # refused by Oniguruma
    r"(?s)a", r"[\w-x]", r"[z-a]", r"[a", r"(a", r"a)", r"*a", r"\p{Foo}", r"[[:foo:]]", r"[a-\d]", r"\u{41}", r"(?P<n>a)", r"(?|a)", r"\p{L&}", r"\p{Script=Han}", r"(?=a)*", r""]
SMALL_TEXTS = ["", "a", "b", "ab", "aab", "abc", "aaa", "aaaaaaa", "abcd", "aB C", "ac c bd", "a\nab\n", "\na", "aaab", "cabab", "baac", "a b-c_d!", "é\u0301ß1٣x", "KkK sSſ", "\t\v\f\x07\x1b\x08\x00", "a{1}a{x}]", "日本 Abc12", "abbcbc", "xxyyza", "\u0378$+<"]


def matches(pattern, text):
    split = pre.Split(Regex(pattern), "removed", True)
    return [list(span) for _, span in split.pre_tokenize_str(text)]


def row(pattern, texts):
    try:
        Regex(pattern)
        matches(pattern, "a")
    except Exception:
        return {"pattern": pattern, "matches": None}
    return {"pattern": pattern, "matches": [matches(pattern, t) for t in texts]}


CLASSES = [r"\w", r"\s", r"\d", r"\h"] + [r"\p{%s}" % n for n in "L M N P S Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Cc Cf Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Devanagari Alphabetic Lowercase Uppercase White_Space Alnum Blank Cntrl Graph Print Punct Space Upper Lower XDigit Word".split()]


def ranges(pattern):
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    out = []
    for a, b in matches(pattern + "+", every):
        lo, hi = ord(every[a]), ord(every[b - 1])
        out.append([lo, hi])
    return out


if __name__ == "__main__":
    parts = ['"known_texts": ' + json.dumps(TEXTS), '"small_texts": ' + json.dumps(SMALL_TEXTS)]
    parts += ['"known": {\n' + ",\n".join(f"{json.dumps(n)}: {json.dumps(row(p, TEXTS), separators=(',', ':'))}" for n, p in KNOWN.items()) + "}"]
    parts += ['"small": [\n' + ",\n".join(json.dumps(row(p, SMALL_TEXTS), separators=(",", ":")) for p in SMALL) + "]"]
    (HERE / "vectors.json").write_text("{" + ",\n".join(parts) + "}\n")
    rows = ",\n".join(f"{json.dumps(c)}: {json.dumps(ranges(c), separators=(',', ':'))}" for c in CLASSES)
    (HERE / "classes.json").write_text("{" + rows + "}\n")
