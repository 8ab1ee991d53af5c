"""Goldens of generation, beside those of the models in models.py.

<model>/generation.safetensors   what transformers in f32 continues prompts with, greedily
  prompt.<i> [P]   tokens.<i> [256]                                                       i32
  logits.<i> [n, V] f32   after the prompt and after every 32nd of the tokens

<model>/evaluation.safetensors   how likely transformers in f64 finds random tokens
  ids [N] i32   windows [2] i32: tokens of one, and from one to the next
  whole [N - 1] f64   logarithm of the probability of each token after all before it
  windowed [N - 1] f64   the same by windows; a token counts in the first that has it after another

sampling.safetensors   what the logits processors and warpers of transformers make of logits
  logits [cases, V] f64   seen [cases, S] i32 (different ids)
  settings [cases, 5] f64   repeat penalty, temperature, top_k, top_p, min_p
  probabilities [cases, V] f64
"""

import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from common import generator, integers, require
from models import MODELS

TOKENS = 256
STRIDE = 32
PROMPTS = (1, 5, 150)
# Two logits nearer than this, as a share of the largest, might change places in another program's f32.
CLOSE = 1e-5


def continue_prompts(folder, name):
    model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    rng = generator(5)
    tensors = {}
    for i, length in enumerate(PROMPTS):
        prompt = integers(rng, 0, model.config.vocab_size, length)
        with torch.no_grad():
            out = model.generate(
                prompt[None],
                attention_mask=torch.ones_like(prompt[None]),  # else it leaves out what pad_token_id names
                max_new_tokens=TOKENS,
                do_sample=False,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
        logits = torch.cat(out.logits)
        best = logits.topk(2).values
        gap = ((best[:, 0] - best[:, 1]) / logits.abs().max()).min()
        require(gap > CLOSE, f"{name}: the two likeliest tokens of prompt {i} are {gap} apart")
        tensors[f"prompt.{i}"] = prompt.int()
        tensors[f"tokens.{i}"] = out.sequences[0, length:].int()
        tensors[f"logits.{i}"] = logits[::STRIDE].clone()
    save_file(tensors, folder / name / "generation.safetensors")


def score_tokens(folder, name):
    model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float64).eval()
    count, context, stride = 300, 96, 70
    ids = integers(generator(7), 0, model.config.vocab_size, count)

    def logprobs(part):
        with torch.no_grad():
            logits = model(part[None], attention_mask=torch.ones_like(part[None])).logits[0, :-1]
        return logits.log_softmax(-1).gather(1, part[1:, None])[:, 0]

    windowed = []
    begin, end = 0, 1
    while end < count:
        part = ids[begin : begin + context]
        windowed.append(logprobs(part)[end - begin - 1 :])
        end = begin + context
        begin = min(begin + stride, count - context)
    save_file(
        {
            "ids": ids.int(),
            "windows": torch.tensor([context, stride], dtype=torch.int32),
            "whole": logprobs(ids),
            "windowed": torch.cat(windowed),
        },
        folder / name / "evaluation.safetensors",
    )


def filter_logits(folder):
    vocabulary, seen_ids = 97, 12
    rng = generator(6)
    settings = [
        (1, 1, 0, 1, 0),
        (1, 0.5, 0, 1, 0),
        (1, 2, 0, 1, 0),
        (1, 1, 1, 1, 0),
        (1, 1, 7, 1, 0),
        (1, 1, 96, 1, 0),
        (1, 1, 200, 1, 0),
        (1, 1, 0, 0.1, 0),
        (1, 1, 0, 0.9, 0),
        (1, 0.7, 0, 0.999, 0),
        (1, 1, 0, 1, 0.05),
        (1, 1.5, 0, 1, 0.9),
        (1.3, 1, 0, 1, 0),
        (0.8, 1, 0, 1, 0),
        (1.1, 0.8, 20, 0.95, 0.02),
        (1.2, 1.3, 40, 0.6, 0.1),
    ]
    cases = len(settings)
    logits = 3 * torch.randn(cases, vocabulary, generator=rng, dtype=torch.float64)
    logits[3, 11] = logits[3, 12] = logits[3].max() + 1  # the likeliest one twice: top-k keeps both
    seen = torch.stack([torch.randperm(vocabulary, generator=rng)[:seen_ids] for _ in settings])
    probabilities = []
    for row, ids, (penalty, temperature, top_k, top_p, min_p) in zip(logits, seen, settings):
        scores = RepetitionPenaltyLogitsProcessor(float(penalty))(ids[None], row[None].clone())
        warpers = [TemperatureLogitsWarper(float(temperature))]
        warpers += [TopKLogitsWarper(top_k)] if top_k else []
        warpers += [TopPLogitsWarper(float(top_p))] if top_p < 1 else []
        warpers += [MinPLogitsWarper(min_p)] if min_p else []
        for warper in warpers:
            scores = warper(ids[None], scores)
        probabilities.append(scores.softmax(-1)[0])
    save_file(
        {
            "logits": logits,
            "seen": seen.int(),
            "settings": torch.tensor(settings, dtype=torch.float64),
            "probabilities": torch.stack(probabilities),
        },
        folder / "sampling.safetensors",
    )


def make(folder):
    """Needs the models that models.make left in the folder."""
    for name in MODELS:
        continue_prompts(folder, name)
        score_tokens(folder, name)
    filter_logits(folder)
