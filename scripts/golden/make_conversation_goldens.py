#!/usr/bin/env python3
"""Makes tests/golden/data/tokenizer/conversations.json: ids and assistant masks of conversations by transformers.

  scripts/golden/make_conversation_goldens.py tests/golden/data/tokenizer

transformers knows what an assistant said by {% generation %} blocks; strata must find the same without them. The
tokenizer is that of llama3.json with the markers below. Needs transformers and tokenizers; versions stand in the file.
"""

import json
import os
import sys

import tokenizers
import transformers
from tokenizers import AddedToken, Tokenizer

MARKERS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>",
           "[INST]", "[/INST]"]
BOS, EOS = "<s>", "</s>"

# Each writes an assistant's turn between {% generation %} tags, which are taken out for strata.
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
              "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
              "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "llama3": "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
              "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot_id|>' }}{% endgeneration %}"
              "{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    "mistral": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + '[/INST]' }}"
               "{% elif m.role == 'assistant' %}{% generation %}{{ ' ' + m.content | trim + eos_token }}"
               "{% endgeneration %}{% else %}{{ m.content + '\\n\\n' }}{% endif %}{% endfor %}",
}


def say(*contents, system=None):
    turns = [{"role": ("user", "assistant")[i % 2], "content": c} for i, c in enumerate(contents)]
    return ([{"role": "system", "content": system}] if system else []) + turns


CONVERSATIONS = [
    say("One?", "First one.", "Two?", "Second.", "Three?", "Third."),
    say("Say it.", "It.", system="Be brief."),
    say(" spaces before and behind ", "  an answer with spaces  ", "more\n\n", "\nlines\n\nof text\n"),
    say("\u00e9l\u00e8ve \u4f60\u597d \U0001f600", "Stra\u00dfe, \u00e9l\u00e8ve, \u65e5\u672c\u8a9e \U0001f469\u200d\U0001f4bb", "e\u0301", "\u0301"),
    say("def f(x):\n    return x + 1", "```python\ndef f(x: int) -> int:\n    return x + 1\n```\nIt's 1,234.56 more."),
    say("the same the same", "the same the same", "the same", "the same the same the same"),
    say("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", system="Count.\n"),
    say("Unanswered at the end", "yes", "and this?"),
]


def without_generation(template):
    return template.replace("{% generation %}", "").replace("{% endgeneration %}", "")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    inner = Tokenizer.from_file(os.path.join(sys.argv[1], "llama3.json"))
    inner.add_special_tokens([AddedToken(marker, special=True, normalized=False) for marker in MARKERS])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=BOS, eos_token=EOS)
    cases = []
    for name, template in TEMPLATES.items():
        for messages in CONVERSATIONS:
            made = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                                 return_assistant_tokens_mask=True)
            assert any(made["assistant_masks"]) and not all(made["assistant_masks"])
            cases.append({"template": name, "messages": messages, "ids": list(made["input_ids"]),
                          "loss": list(made["assistant_masks"])})
    golden = {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__,
              "markers": {marker: inner.token_to_id(marker) for marker in MARKERS}, "bos_token": BOS, "eos_token": EOS,
              "templates": {name: {"marked": template, "plain": without_generation(template)}
                            for name, template in TEMPLATES.items()},
              "cases": cases}
    with open(os.path.join(sys.argv[1], "conversations.json"), "w", encoding="utf-8") as out:
        json.dump(golden, out, indent=0, ensure_ascii=True)
        out.write("\n")


main()
