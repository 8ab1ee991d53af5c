#!/usr/bin/env python3
"""Writes what test_tokenizer compares with: pieces of texts and normal forms C, as the references have them.

  pip install tokenizers==0.23.3 tiktoken==0.14.0
  python3 scripts/golden/make_tokenizer_goldens.py tests/golden/data/tokenizer/splits.json

Tricky texts stand there with their pieces. Of many more texts there are checksums only: blocks of texts that are
made by a rule, which tests/tokenizer/reference.cpp follows too. It takes minutes.
"""

import json
import sys
import zlib
from importlib.metadata import version

import tiktoken
from tokenizers import Regex, normalizers, pre_tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT2_TIKTOKEN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
CL100K_START = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|"
CL100K_END = r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
CL100K = CL100K_START + r"\p{N}{1,3}+" + CL100K_END + r"\s++$|\s*[\r\n]|\s+(?!\S)|\s"
# What tiktoken reads there, in the dialect of `tokenizers`, where {1,3}+ repeats and $ is the end of any line.
CL100K_READ = CL100K_START + r"(?>\p{N}{1,3})" + CL100K_END + r"\s++\z|\s*[\r\n]|\s+(?!\S)|\s"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
NEWLINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_END = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + NEWLINES_AND_SPACES
LLAMA_START = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED_END = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + NEWLINES_AND_SPACES


def cased(contractions, numbers):
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (f"{lead}{UPPER}*{LOWER}+{contractions}|{lead}{UPPER}+{LOWER}*{contractions}|{numbers}" + CASED_END)


# name: (text, what `tokenizers` is given, what tiktoken is given; None for patterns that leave gaps)
PATTERNS = {
    "gpt2": (GPT2, GPT2, GPT2_TIKTOKEN),
    "cl100k": (CL100K, CL100K_READ, CL100K),
    "llama3": (LLAMA_START + r"\p{N}{1,3}" + LLAMA_END,) * 3,
    "qwen2": (LLAMA_START + r"\p{N}" + LLAMA_END,) * 3,
    "qwen35": (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
               + NEWLINES_AND_SPACES,) * 3,
    "o200k": (cased(CONTRACTIONS + "?", r"\p{N}{1,3}"),) * 3,
    "tekken": (cased("", r"\p{N}"),) * 3,
    "number": (r"\p{N}",) * 2 + (None,),
    "deepseek_numbers": (r"\p{N}{1,3}",) * 2 + (None,),
    "deepseek_cjk": ("[一-龥\u3040-ゟ゠-ヿ]+",) * 2 + (None,),
    "deepseek_words": (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+""" "|[^\r\n"
                       r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+" "[\r\n]*|\\s*[\r\n]+"
                       r"|\s+(?!\S)|\s+",) * 2 + (None,),
    "deepseek_coder_lines": ("[\r\n]",) * 2 + (None,),
    "deepseek_coder_words": (r"\s?\p{L}+",) * 2 + (None,),
    "deepseek_coder_punctuation": (r"\s?\p{P}+",) * 2 + (None,),
    "deepseek_coder_cjk": ("[一-龥ࠀ-一가-\ud7ff]+",) * 2 + (None,),
}

TRICKY = [
    "I've they'LL he'D 'S 's'S it\u2019s 'ſ don'T'VE we'r 'l '", "  two  spaces   three\ttab \t x", "end   ", "a \n b\n\n  c \r\n\r\n",
    "\n \n\t end\n  ", " \n", "\u3000日本語 テスト、です。\u00a0nbsp\u2028line", "1 22 333 4444 55555 ½²Ⅷ٣ 1a2b a1", "HTTPServer XMLHttpRequest iOS",
    "日AB abcDEF ǅabc ʰABʰc Éa É́A ́a ́́", "foo/bar//baz/\n/\n x ?!/\r\n", "...\n\n,,, ,,, --\n--", "🎉🎉 👩‍👩‍👧 x🎉y", "__init__(self):\n    return\tNone",
    ".hello !world #tag @a -b\u3001c", "\x00\x01a\x02 \x7f\x85b\u200bword\u00ad \ufeffx", "\u180e a\u180eb \u0378\u0378c", "हिन्दी में ภาษาไทย العَرَبِيَّة",
    "'\n'", "\r", "a\r\rb \r c", " 'll 'LLama'VEx", "\U00020000\U0010ffff\ue000 \U0001d400x", "가나다 漢字かな",
]
ALPHABET = [
    " ", " ", " ", "  ", "\t", "\n", "\r", "\r\n", "\u00a0", "\u3000", "\u0085", "\u2028", "'", "'", "'s", "'LL", "'Ve", "'d", "ſ", "t", "re", "a", "e", "z",
    "A", "E", "Z", "É", "ß", "ǅ", "ʰ", "ª", "日", "か", "カ", "가", "א", "م", "ก", "\u0301", "\u0903", "\u20dd", "\u0e31", "1", "2", "345", "²", "½", "Ⅷ", "٣",
    ".", ",", "!", "?", "-", "_", "/", "\"", "(", "$", "+", "<", "¢", "。", "、", "🎉", "\u200d", "\u200b", "\u00ad", "\u0000", "\u180e", "\u0378", "\ue000", "\ufeff", "the", "The", "HTTP",
]
NORMAL_ALPHABET = [
    "a", "e", "A", "o", "c", " ", "\u0300", "\u0301", "\u0302", "\u0304", "\u0308", "\u030a", "\u030c", "\u0323", "\u0316", "\u0327", "\u0328", "\u0345", "\u0338", "\u031b", "é", "ệ", "ṩ", "Å", "\u212b", "\u2126", "ᾳ", "α",
    "\u1100", "\u1112", "\u1161", "\u1175", "\u11a7", "\u11a8", "\u11c2", "가", "각", "힣", "\u0915", "\u093c", "\u0958", "\u094d", "\u09c7", "\u09be", "\u09d7", "\u0dd9", "\u0dcf", "\u0dca", "\u05d0", "\u05bc", "\u05b0", "\ufb2c", "\u0344", "\u0f71", "\u0f72", "\u0f73",
    "\u1e0a", "\u1e0c", "か", "\u3099", "\uf900", "\U0002f800", "\U0001d15e", "\U0001d165", "\U0001d16d", "\U00011099", "\U000110ba", "\u0897", "\u1df6", "\U00011935", "\U00011930",
]
CODE_POINTS_OF_BLOCK, TEXTS_OF_BLOCK, TEXTS = 4096, 2000, 200_000
MASK = (1 << 64) - 1


class SplitMix64:
    def __init__(self, seed):
        self.state = seed

    def __call__(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)


def random_text(alphabet, seed):
    """1 to 32 symbols: one in eight any code point, the others from the alphabet."""
    draw = SplitMix64(seed)
    text = ""
    for _ in range(1 + draw() % 32):
        number = draw()
        code_point = (number >> 3) % 0x110000
        if number % 8 == 0 and not 0xD800 <= code_point < 0xE000:
            text += chr(code_point)
        else:
            text += alphabet[(number >> 3) % len(alphabet)]
    return text


def contexts(code_point):
    """A code point among letters, spaces, quotes and numbers."""
    c = chr(code_point)
    return f"a{c}b {c}{c}A '{c}\n1{c}.{c} "


def blocks_of_code_points():
    for begin in range(0, 0x110000, CODE_POINTS_OF_BLOCK):
        part = range(begin, begin + CODE_POINTS_OF_BLOCK)
        yield ["".join(contexts(c) for c in part if not 0xD800 <= c < 0xE000)]


def blocks_of_texts(alphabet):
    for begin in range(0, TEXTS, TEXTS_OF_BLOCK):
        yield [random_text(alphabet, seed) for seed in range(begin, begin + TEXTS_OF_BLOCK)]


def checksum(blocks, pieces):
    """The CRC-32 of each block: of all pieces of its texts, each behind by a byte that is in no UTF-8."""
    def crc(texts):
        return zlib.crc32(b"".join(piece.encode() + b"\xff" for text in texts for piece in pieces(text)))
    return [f"{crc(texts):08x}" for texts in blocks]


def splitter(regex):
    split = pre_tokenizers.Split(Regex(regex), "isolated")
    return lambda text: [piece for piece, _ in split.pre_tokenize_str(text)]


def check_with_tiktoken(name, regex, pieces, texts):
    """Fails unless tiktoken cuts likewise, as seen by a vocabulary in which all pairs of bytes merge."""
    ranks = {bytes([i]): i for i in range(256)}
    ranks |= {bytes([i, j]): 256 + i * 256 + j for i in range(256) for j in range(256)}
    of_pattern = tiktoken.Encoding(name, pat_str=regex, mergeable_ranks=ranks, special_tokens={})
    whole = tiktoken.Encoding("whole", pat_str=r"(?s:.+)", mergeable_ranks=ranks, special_tokens={})
    for text in texts:
        if of_pattern.encode_ordinary(text) != [i for piece in pieces(text) for i in whole.encode_ordinary(piece)]:
            sys.exit(f"{name}: tiktoken differs from tokenizers: {text!r} {pieces(text)}")


def pattern_goldens(name, text_blocks, code_point_blocks):
    text, read, by_tiktoken = PATTERNS[name]
    pieces = splitter(read)
    if by_tiktoken:
        check_with_tiktoken(name, by_tiktoken, pieces, TRICKY + [t for block in text_blocks[:10] for t in block])
    print(name, flush=True)
    return {"regex": text, "dialect": "tokenizers" if text == read else "tiktoken",
            "tricky": [pieces(text) for text in TRICKY],
            "code_points": checksum(code_point_blocks, pieces), "texts": checksum(text_blocks, pieces)}


def goldens():
    text_blocks, code_point_blocks = list(blocks_of_texts(ALPHABET)), list(blocks_of_code_points())
    normal_form = normalizers.NFC().normalize_str
    return {
        "tokenizers": version("tokenizers"), "tiktoken": version("tiktoken"),
        "alphabet": ALPHABET, "normal_alphabet": NORMAL_ALPHABET,
        "patterns": {name: pattern_goldens(name, text_blocks, code_point_blocks) for name in PATTERNS},
        "nfc": {"code_points": checksum(code_point_blocks, lambda text: [normal_form(text)]),
                "texts": checksum(blocks_of_texts(NORMAL_ALPHABET), lambda text: [normal_form(text)])},
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(goldens(), file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")
