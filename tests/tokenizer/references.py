"""The libraries that tokenizer files are from, with one interface, for compare_with_reference.py."""

import base64
import random
from pathlib import Path



class Reference:
    """encode: text to ids, where texts of special tokens are text; parse: where they are these tokens, or None;
    decode: ids to text; special: the texts of special and added tokens."""

    def __init__(self, name, encode, decode, parse=None, special=()):
        self.name, self.encode, self.decode, self.parse, self.special = name, encode, decode, parse, list(special)


def tokenizer_json(path):
    from tokenizers import Tokenizer
    model = Tokenizer.from_file(str(path))

    def encode(text, parse_special):
        model.encode_special_tokens = not parse_special
        return model.encode(text, add_special_tokens=False).ids

    return Reference("tokenizers", lambda text: encode(text, False),
                     lambda ids: model.decode(ids, skip_special_tokens=True),
                     lambda text: encode(text, True), (t.content for t in model.get_added_tokens_decoder().values()))


def sentencepiece_model(path):
    from sentencepiece import SentencePieceProcessor
    model = SentencePieceProcessor(model_file=str(path))
    return Reference("sentencepiece", model.encode, model.decode)


def tekken(path):
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    model = Tekkenizer.from_file(path)
    return Reference("mistral_common", lambda text: model.encode(text, bos=False, eos=False), model.decode)


def ranks(path):
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def tiktoken_file(path):
    """By the number of tokens: each of the known vocabularies has its own."""
    import tiktoken
    import tiktoken_ext.openai_public as openai
    merges = ranks(path)
    prepare = str
    special = {}
    if len(merges) == 128000:
        from llama_models.llama3.tokenizer import Tokenizer
        pattern = Tokenizer.pat_str
        special = Tokenizer(path).special_tokens
    elif len(merges) == 151643:
        from tokenizers import normalizers
        from dashscope.tokenizers.qwen_tokenizer import PAT_STR as pattern
        prepare = normalizers.NFC().normalize_str  # that of Python depends on its version
    elif len(merges) == 100256:
        pattern = openai_pattern(openai, "cl100k_base")
    else:  # o200k_base, and Llama 4
        pattern = openai_pattern(openai, "o200k_base")
    model = tiktoken.Encoding(path.name, pat_str=pattern, mergeable_ranks=merges, special_tokens=special)
    return Reference("tiktoken", lambda text: model.encode_ordinary(prepare(text)), model.decode,
                     (lambda text: model.encode(prepare(text), allowed_special="all")) if special else None, special)


def openai_pattern(openai, name):
    """An encoding's pattern, without fetching its ranks."""
    openai.load_tiktoken_bpe = lambda *_, **__: {}
    return getattr(openai, name)()["pat_str"]


def of(path):
    """The reference of a file, or of a folder's tokenizer.json."""
    path = Path(path)
    if path.is_dir():
        path = path / "tokenizer.json"
    if path.suffix == ".json":
        return tekken(path) if "tekken" in path.name else tokenizer_json(path)
    with path.open("rb") as file:
        is_model = file.read(1) == b"\n"
    return sentencepiece_model(path) if is_model else tiktoken_file(path)


WORDS = ["the ", "training ", " of", "\n", "\t", "\r\n", "\u2581", "\u2581\u2581", "<0x41>", "[INST]", "</s>", "<s>", "[REF]",
         "[REFERENCE_DOC_12]", "\u0301", "don't", "\x01", "\u00a0", "\u3000", "1234", "<|endoftext|>", "e\u0301", "\u1100\u1161"]
RANGES = [(0x20, 0x7f), (0x80, 0x800), (0x900, 0xe00), (0x3040, 0x3100), (0x4e00, 0xa000), (0xac00, 0xd7a4),
          (0x1f300, 0x1f700), (0xe000, 0x110000)]


def random_text(seed, length, words=()):
    """Words, spaces and code points, most of them from the blocks that texts have."""
    draw = random.Random(seed)
    words = [*WORDS, *words]
    parts = []
    for _ in range(length):
        kind = draw.randrange(len(RANGES) + 2)
        if kind < len(RANGES):
            parts.append(chr(draw.randrange(*RANGES[kind])))
        else:
            parts.append(draw.choice(words) if kind == len(RANGES) else " " * draw.randrange(1, 5))
    return "".join(parts)
