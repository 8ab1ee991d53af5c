"""Goldens of single operators: one file per operator, tensors named "<case>/<tensor>".

Floating-point inputs are exact in bf16, so the f64 results are the reference for every dtype.
"<case>/<tensor>.f32_error" and ".bf16_error" hold the relative error (2-norm) that PyTorch itself
makes in that dtype; a backend is held to a small multiple of it. "bf16" means what strata's
contracts say: bf16 in memory, arithmetic in f32, one rounding of each bf16 result. Results kept in
the accumulator dtype ("A" in strata's headers) are not rounded. Attention in bf16 is PyTorch's
scaled_dot_product_attention on bf16 tensors, because probabilities are rounded there too; it knows
no caps, so where scores are capped probabilities are rounded here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from common import DTYPES, draw, generator, integers, inverse_frequencies, relative_error, rotate


@dataclass
class Case:
    """`formula(inputs, dtype)` gives outputs by name; backward comes from autograd."""

    formula: Callable
    inputs: dict  # floating point, f64
    constants: dict = field(default_factory=dict)  # integers and scalars: stored, not converted
    cotangents: dict = field(default_factory=dict)  # output -> the input that holds its gradient
    gradients: dict = field(default_factory=dict)  # input -> name of its gradient
    accumulators: tuple = ()  # results that are kept in A


def evaluate(case, dtype):
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    inputs = {name: value.to(compute, copy=True) for name, value in case.inputs.items()}
    for name in case.gradients:
        inputs[name].requires_grad_()
    results = case.formula(inputs, dtype)
    if case.gradients:
        sum((results[o] * inputs[c]).sum() for o, c in case.cotangents.items()).backward()
    results = {name: value.detach() for name, value in results.items()}
    for source, name in case.gradients.items():
        results[name] = inputs[source].grad
        before = name + "_before"
        if before in inputs:
            results[name] = results[name] + inputs[before]
    if dtype == torch.bfloat16:
        for name in results.keys() - set(case.accumulators):
            results[name] = results[name].to(torch.bfloat16)
    return results


def store(tensors, name, case):
    """Adds a case's inputs, f64 results and PyTorch's errors to `tensors`."""
    for key, value in case.inputs.items():
        exact = torch.equal(value.to(torch.bfloat16).double(), value)
        tensors[f"{name}/{key}"] = value.to(torch.bfloat16) if exact else value
    for key, value in case.constants.items():
        tensors[f"{name}/{key}"] = value
    reference = evaluate(case, torch.float64)
    for key, value in reference.items():
        tensors[f"{name}/{key}"] = value
    for label, dtype in DTYPES.items():
        for key, value in evaluate(case, dtype).items():
            tensors[f"{name}/{key}.{label}_error"] = relative_error(value, reference[key])


def as_stored(x, dtype):
    """Rounds an intermediate that strata keeps in memory in the compute dtype."""
    return x.to(torch.bfloat16).to(x.dtype) if dtype == torch.bfloat16 else x


def int32(values):
    return torch.as_tensor(values, dtype=torch.int32)


def scalar(value):
    return torch.tensor([value], dtype=torch.float64)


def embedding(rng):
    ids = integers(rng, 0, 11, 9)
    ids[7] = ids[1]
    order = torch.sort(ids, stable=True).indices
    return {
        "odd": Case(
            formula=lambda x, _: {"y": F.embedding(ids, x["table"])},
            inputs={
                "table": draw(rng, 11, 5),
                "dy": draw(rng, 9, 5),
                "d_table_before": draw(rng, 11, 5),
            },
            constants={"ids": int32(ids), "order": int32(order)},
            cotangents={"y": "dy"},
            gradients={"table": "d_table"},
            accumulators=("d_table",),
        )
    }


def rmsnorm(rng):
    def case(rows, columns, eps, residual):
        def formula(x, dtype):
            total = as_stored(x["x"] + x["residual"], dtype) if residual else x["x"]
            rstd = torch.rsqrt(total.pow(2).mean(-1) + eps)
            outputs = {"y": F.rms_norm(total, (columns,), x["weight"], eps), "rstd": rstd}
            return outputs | {"sum": total} if residual else outputs

        inputs = {
            "x": draw(rng, rows, columns),
            "weight": draw(rng, columns, std=0.2, mean=1.0),
            "dy": draw(rng, rows, columns),
            "d_weight_before": draw(rng, columns),
        }
        if residual:
            inputs |= {
                "residual": draw(rng, rows, columns),
                "d_residual": draw(rng, rows, columns),
            }
        return Case(
            formula,
            inputs,
            constants={"eps": scalar(eps)},
            cotangents={"y": "dy"} | ({"sum": "d_residual"} if residual else {}),
            gradients={"x": "dx", "weight": "d_weight"},
            accumulators=("rstd", "d_weight"),
        )

    return {"plain": case(7, 13, 1e-5, False), "residual": case(5, 72, 1e-2, True)}


def rope(rng):
    llama3 = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }

    def case(positions, heads, head_dim, theta, scaling):
        frequencies = inverse_frequencies(head_dim, theta, scaling)
        angles = torch.outer(torch.arange(20, dtype=torch.float64), frequencies)
        at = torch.as_tensor(positions)

        def formula(x, _):
            return {"y": rotate(x["x"], x["cos"][at][:, None], x["sin"][at][:, None])}

        return Case(
            formula,
            inputs={
                "x": draw(rng, len(positions), heads, head_dim),
                "dy": draw(rng, len(positions), heads, head_dim),
                "cos": angles.cos(),
                "sin": angles.sin(),
            },
            constants={"positions": int32(positions)},
            cotangents={"y": "dy"},
            gradients={"x": "dx"},
        )

    return {
        "plain": case([0, 1, 2, 0, 19], 3, 6, 10000.0, None),
        "llama3": case([3, 4, 5, 6, 0, 1, 2], 2, 64, 500.0, llama3),
    }


def attention(rng):
    def case(segments, q_heads, kv_heads, head_dim, uniform_length=0, keys=None, window=0, cap=0):
        queries = max(s[0] + s[2] for s in segments)
        keys = keys or max(s[1] + s[3] for s in segments)
        scale = head_dim**-0.5
        visible = torch.zeros(queries, keys, dtype=torch.bool)
        for q_begin, k_begin, q_length, k_length, q_offset in segments:
            for i in range(q_length):
                last = min(i + q_offset, k_length - 1)
                first = max(0, i + q_offset - window + 1) if window else 0
                visible[q_begin + i, k_begin + first : k_begin + last + 1] = True

        def formula(x, dtype):
            group = q_heads // kv_heads
            q = x["q"].transpose(0, 1)
            k = x["k"].repeat_interleave(group, dim=1).transpose(0, 1)
            v = x["v"].repeat_interleave(group, dim=1).transpose(0, 1)
            scores = scale * q @ k.transpose(1, 2)
            if cap:
                scores = cap * torch.tanh(scores / cap)
            scores = scores.masked_fill(~visible, -torch.inf)
            if dtype == torch.bfloat16 and cap:
                o = (scores.softmax(-1).to(dtype) @ v.to(dtype)).float()
            elif dtype == torch.bfloat16:
                half = [t[None].to(dtype) for t in (q, k, v)]
                mask = visible[None, None]
                o = F.scaled_dot_product_attention(*half, attn_mask=mask, scale=scale)[0].float()
            else:
                o = scores.softmax(-1) @ v
            return {"o": o.transpose(0, 1), "lse": scores.detach().logsumexp(-1)}

        return Case(
            formula,
            inputs={
                "q": draw(rng, queries, q_heads, head_dim),
                "k": draw(rng, keys, kv_heads, head_dim),
                "v": draw(rng, keys, kv_heads, head_dim),
                "d_o": draw(rng, queries, q_heads, head_dim),
            },
            constants={
                "segments": int32(segments),
                "uniform_length": int32([uniform_length]),
                "scale": scalar(scale),
                "window": int32([window]),
                "score_cap": scalar(cap),
            },
            cotangents={"o": "d_o"},
            gradients={"q": "dq", "k": "dk", "v": "dv"},
            accumulators=("lse",),
        )

    def row(i, length):
        return (i * length, i * length, length, length, 0)

    # Documents of 5, 1 and 7 tokens; the last four queries of a row of 7 with its past as keys (the
    # last key is beyond every query); an unused entry; a key that no segment holds.
    packed = [(0, 0, 5, 5, 0), (5, 5, 1, 1, 0), (6, 6, 7, 7, 0), (13, 13, 4, 8, 3), (0, 0, 0, 0, 0)]
    return {
        "mha_odd": case([row(0, 7), row(1, 7)], 3, 3, 6, uniform_length=7),
        "gqa_64": case([row(0, 9), row(1, 9)], 4, 2, 64, uniform_length=9),
        "packed": case(packed, 4, 2, 8, keys=22),
        "packed_64": case(packed, 3, 1, 64, keys=22),
        "windowed": case(packed, 4, 2, 8, keys=22, window=3),
        "capped": case(packed, 4, 2, 8, keys=22, window=4, cap=1.5),
    }


def swiglu(rng):
    def formula(x, _):
        gate, up = x["gate_up"].chunk(2, dim=-1)
        return {"y": F.silu(gate) * up}

    return {
        "odd": Case(
            formula,
            inputs={"gate_up": draw(rng, 5, 14, std=2.0), "d_y": draw(rng, 5, 7)},
            cotangents={"y": "d_y"},
            gradients={"gate_up": "d_gate_up"},
        )
    }


def residual_add(rng):
    return {
        "odd": Case(
            formula=lambda x, _: {"y": x["a"] + x["b"]},
            inputs={"a": draw(rng, 5, 7), "b": draw(rng, 5, 7)},
        )
    }


def cross_entropy(rng):
    targets = integers(rng, 0, 131, 7)
    targets[2] = targets[5] = -100
    return {
        "odd": Case(
            formula=lambda x, _: {
                "loss": F.cross_entropy(x["logits"], targets, reduction="none"),
                "lse": x["logits"].detach().logsumexp(-1),
            },
            inputs={"logits": draw(rng, 7, 131, std=3.0), "grad_scale": scalar(0.203125)},
            constants={"targets": int32(targets)},
            cotangents={"loss": "grad_scale"},
            gradients={"logits": "d_logits"},
            accumulators=("loss", "lse"),
        )
    }


def preference(rng):
    """Losses of pairs of answers, by the formulas of the papers as TRL writes them, and their
    derivatives by the losses of tokens. Pairs lie one behind the other; the first tokens of an
    answer are its prompt, without targets."""
    pairs = [(0, 5, 12), (12, 14, 19), (19, 28, 31)]
    tokens = pairs[-1][-1]
    targets = integers(rng, 0, 50, tokens)
    for begin, middle, end in pairs:
        for first, last in ((begin, middle), (middle, end)):
            targets[first : first + (last - first) // 3] = -100
            targets[last - 1] = -100  # the last token predicts none
    counts = (targets != -100).double()

    def answers(losses):
        chosen = torch.stack([-losses[b:m].sum() for b, m, _ in pairs])
        return chosen, torch.stack([-losses[m:e].sum() for _, m, e in pairs])

    lengths = torch.stack([counts[b:m].sum() for b, m, _ in pairs])
    other_lengths = torch.stack([counts[m:e].sum() for _, m, e in pairs])

    def margin_loss(z, smoothing):
        return -F.logsigmoid(z) * (1 - smoothing) - F.logsigmoid(-z) * smoothing

    def dpo(x, beta, _, smoothing):
        chosen, rejected = answers(x["token_loss"])
        reference_chosen, reference_rejected = answers(x["reference"])
        logits = (chosen - rejected) - (reference_chosen - reference_rejected)
        rewards = beta * (chosen - reference_chosen), beta * (rejected - reference_rejected)
        return margin_loss(beta * logits, smoothing), *rewards

    def means(losses):
        chosen, rejected = answers(losses)
        return chosen / lengths.to(losses.dtype), rejected / other_lengths.to(losses.dtype)

    def ipo(x, beta, *_):
        chosen, rejected = means(x["token_loss"])
        reference_chosen, reference_rejected = means(x["reference"])
        logits = (chosen - rejected) - (reference_chosen - reference_rejected)
        rewards = beta * (chosen - reference_chosen), beta * (rejected - reference_rejected)
        return (logits - 1 / (2 * beta)) ** 2, *rewards

    def simpo(x, beta, gamma, smoothing):
        chosen, rejected = means(x["token_loss"])
        logits = (chosen - rejected) - gamma / beta
        return margin_loss(beta * logits, smoothing), beta * chosen, beta * rejected

    def orpo(x, beta, *_):
        chosen, rejected = means(x["token_loss"])
        log_odds = (chosen - rejected) - (
            torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected))
        )
        return -chosen - beta * F.logsigmoid(log_odds), beta * chosen, beta * rejected

    def case(objective, beta, gamma=0.0, smoothing=0.0):
        def formula(x, _):
            losses, chosen, rejected = objective(x, beta, gamma, smoothing)
            preferred = (chosen > rejected).to(losses.dtype)
            return {
                "losses": losses,
                "figures": torch.stack([losses, chosen, rejected, preferred], -1),
            }

        losses = draw(rng, 2, tokens, std=1.0).abs() * counts
        return Case(
            formula,
            inputs={
                "token_loss": losses[0],
                "reference": losses[1],
                "grad_scale": scalar(0.203125),
            },
            constants={
                "targets": int32(targets),
                "pairs": int32(pairs),
                "beta": scalar(beta),
                "gamma": scalar(gamma),
                "label_smoothing": scalar(smoothing),
            },
            cotangents={"losses": "grad_scale"},
            gradients={"token_loss": "token_scale"},
            accumulators=("losses", "figures", "token_scale"),
        )

    return {
        "dpo": case(dpo, 0.25),
        "dpo_smoothed": case(dpo, 0.25, smoothing=0.125),
        "ipo": case(ipo, 0.5),
        "simpo": case(simpo, 2.0, gamma=1.0, smoothing=0.125),
        "orpo": case(orpo, 0.25),
    }


def matmul(rng):
    m, n, k = 17, 13, 35
    return {
        "nt": Case(
            formula=lambda x, _: {"out": x["a"] @ x["b"].T},
            inputs={"a": draw(rng, m, k), "b": draw(rng, n, k)},
        ),
        "nn": Case(
            formula=lambda x, _: {"out": x["a"] @ x["b"]},
            inputs={"a": draw(rng, m, k), "b": draw(rng, k, n)},
        ),
        "tn": Case(
            formula=lambda x, _: {"out": x["out_before"] + x["a"].T @ x["b"]},
            inputs={"a": draw(rng, k, m), "b": draw(rng, k, n), "out_before": draw(rng, m, n)},
            accumulators=("out",),
        ),
    }


def squared_norm(rng):
    """Partial sums of blocks of 4096; the last block is short."""
    return {
        "short_last_block": Case(
            formula=lambda x, _: {
                "partial": torch.stack([b.double().pow(2).sum() for b in x["x"].split(4096)])
            },
            inputs={"x": draw(rng, 4099)},
            accumulators=("partial",),
        )
    }


def adamw(rng):
    """Four steps; gradients come in before the clip factor. Results: weight, m and v at the end."""
    n, lrs, factors = 23, [1e-2, 3e-3, 1e-2, 2e-2], [1.0, 0.5, 0.25, 1.0]
    beta1, beta2, eps, decay = 0.9, 0.95, 1e-8, 0.1

    def formula(x, _):
        weight = torch.nn.Parameter(x["weight_before"].clone())
        optimizer = torch.optim.AdamW(
            [weight], betas=(beta1, beta2), eps=eps, weight_decay=decay, foreach=False
        )
        for gradient, lr, factor in zip(x["grads"], lrs, factors):
            optimizer.param_groups[0]["lr"] = lr
            weight.grad = gradient * factor
            optimizer.step()
        state = optimizer.state[weight]
        return {"weight": weight, "m": state["exp_avg"], "v": state["exp_avg_sq"]}

    return {
        "four_steps": Case(
            formula,
            inputs={"weight_before": draw(rng, n), "grads": draw(rng, len(lrs), n, std=0.1)},
            constants={
                "lr": torch.tensor(lrs, dtype=torch.float64),
                "grad_factor": torch.tensor(factors, dtype=torch.float64),
                "beta1": scalar(beta1),
                "beta2": scalar(beta2),
                "eps": scalar(eps),
                "weight_decay": scalar(decay),
            },
            # strata keeps a split f32 master of bf16 weights, so bf16 is held to the f32 error.
            accumulators=("weight", "m", "v"),
        )
    }


def sgd(rng):
    """Four steps each; weights decay as AdamW's do, which PyTorch's SGD leaves to its caller."""
    n, lrs, factors = 23, [1e-2, 3e-3, 1e-2, 2e-2], [1.0, 0.5, 0.25, 1.0]
    momentum, decay = 0.9, 0.1

    def case(nesterov):
        def formula(x, _):
            weight = torch.nn.Parameter(x["weight_before"].clone())
            optimizer = torch.optim.SGD(
                [weight], lr=lrs[0], momentum=momentum, nesterov=nesterov, foreach=False
            )
            for gradient, lr, factor in zip(x["grads"], lrs, factors):
                optimizer.param_groups[0]["lr"] = lr
                weight.grad = gradient * factor
                with torch.no_grad():
                    weight.mul_(1 - lr * decay)
                optimizer.step()
            return {"weight": weight, "m": optimizer.state[weight]["momentum_buffer"]}

        return Case(
            formula,
            inputs={"weight_before": draw(rng, n), "grads": draw(rng, len(lrs), n, std=0.1)},
            constants={
                "lr": torch.tensor(lrs, dtype=torch.float64),
                "grad_factor": torch.tensor(factors, dtype=torch.float64),
                "momentum": scalar(momentum),
                "weight_decay": scalar(decay),
            },
            accumulators=("weight", "m"),
        )

    return {"momentum": case(False), "nesterov": case(True)}


def cast(rng):
    """Compared bit by bit: random patterns, ties, subnormals, overflow, infinity."""
    patterns = integers(rng, -(2**31), 2**31, 96).to(torch.int32)
    patterns[:6] = int32([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x00008000, 0x7F800000])
    single = patterns.view(torch.float32)
    single = torch.where(single.isnan(), torch.ones_like(single), single)
    double = draw(rng, 32) + 2.0**-25 * draw(rng, 32)
    double[:4] = torch.tensor([1 + 2.0**-24, 1 + 3 * 2.0**-24, 1e300, 1e-42], dtype=torch.float64)
    return {
        "single/x": single,
        "single/bf16": single.to(torch.bfloat16),
        "double/x": double,
        "double/f32": double.to(torch.float32),
    }


def make(folder):
    operators = (
        embedding,
        rmsnorm,
        rope,
        attention,
        swiglu,
        residual_add,
        cross_entropy,
        matmul,
        squared_norm,
        adamw,
        sgd,
        preference,
    )
    for seed, operator in enumerate(operators):
        tensors = {}
        for name, case in operator(generator(1000 + seed)).items():
            store(tensors, name, case)
        save(tensors, folder / f"ops_{operator.__name__}.safetensors")
    save(cast(generator(2000)), folder / "ops_cast.safetensors")


def save(tensors, file):
    save_file({name: value.contiguous() for name, value in tensors.items()}, file)
