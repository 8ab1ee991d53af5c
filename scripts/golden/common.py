"""Helpers shared by the golden generators."""

import math

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def generator(seed):
    return torch.Generator().manual_seed(seed)


def draw(rng, *shape, std=1.0, mean=0.0):
    """Normal numbers in f64 that bf16 holds exactly: every dtype starts from the same values."""
    values = mean + std * torch.randn(*shape, generator=rng, dtype=torch.float64)
    return values.to(torch.bfloat16).double()


def integers(rng, low, high, *shape):
    return torch.randint(low, high, shape, generator=rng)


def relative_error(value, reference):
    """||value - reference|| / ||reference||, both in f64."""
    difference = torch.linalg.vector_norm(value.double() - reference.double())
    scale = torch.linalg.vector_norm(reference.double())
    return (difference / scale if scale > 0 else difference).reshape(1)


def require(condition, text):
    if not condition:
        raise SystemExit(f"golden check failed: {text}")


def inverse_frequencies(head_dim, theta, scaling=None):
    """Rotary frequencies theta^(-2i/D) in f64, scaled as linear, llama3, yarn or longrope for short rows say."""
    index = torch.arange(0, head_dim, 2, dtype=torch.float64)
    plain = theta ** (-index / head_dim)
    if scaling is None:
        return plain
    if scaling.get("rope_type") == "longrope":
        return plain / torch.tensor(scaling["short_factor"], dtype=torch.float64)
    if scaling["rope_type"] == "linear":
        return plain / scaling["factor"]
    if scaling["rope_type"] == "yarn":
        turned = scaling["original_max_position_embeddings"] / (2 * math.pi)
        first, last = (
            head_dim * math.log(turned / scaling[turns]) / (2 * math.log(theta)) for turns in ("beta_fast", "beta_slow")
        )
        first, last = max(math.floor(first), 0), min(math.ceil(last), head_dim - 1)
        stretched = ((index / 2 - first) / (last - first)).clamp(0, 1)
        return plain * (1 - stretched) + plain / scaling["factor"] * stretched
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * plain / (2 * torch.pi)
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return plain * (keep + (1 - keep) / scaling["factor"])


def rotate_neighbours(x, cos, sin):
    """Rotary embedding of pairs of neighbours; cos and sin broadcast against [..., heads, D/2]."""
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)


def rotate(x, cos, sin):
    """Half-split rotary embedding; cos and sin broadcast against [..., heads, D/2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
