"""Goldens of weights in codes of a byte with a scale for each row, by PyTorch.

row_codes.safetensors   weight [rows, columns], bf16, and what becomes of it:
  fp8_codes, fp8_scales    its codes in e4m3, as bytes, and their scales, as strata/ops/row_codes.h has them
"""

import torch
from safetensors.torch import save_file

from common import draw, generator

LARGEST_E4M3 = 448


def fp8_parts(weight):
    """Returns the codes of a matrix in float8_e4m3fn, and the scales: the least powers of two that are enough."""
    largest = weight.double().abs().amax(1)
    mantissa, exponent = torch.frexp(largest / LARGEST_E4M3)  # mantissas are from 1/2 on and below 1
    exponent = torch.where(mantissa == 0.5, exponent - 1, exponent).clamp(min=-126)
    scales = torch.ldexp(torch.ones(len(weight), dtype=torch.float64), torch.where(largest > 0, exponent, -126))
    return (weight.double() / scales[:, None]).float().to(torch.float8_e4m3fn), scales


def in_fp8(weight):
    """Returns the matrix that its codes stand for, in f64."""
    codes, scales = fp8_parts(weight)
    return codes.double() * scales[:, None]


def hostile(rows, columns):
    """Draws rows of which the first are zeros, one huge number among small ones, equal ones of the largest code,
    subnormal ones, small ones, and some whose largest number is rounded to half of the largest code."""
    weight = draw(generator(6100), rows, columns, std=0.05).bfloat16()
    weight[0] = 0
    weight[1, 5] = 3e38
    weight[2] = LARGEST_E4M3 * 2.0**-9
    weight[3] = torch.arange(columns) * 2.0**-133
    weight[4] *= 2.0**-120
    weight[5, 0] = 225 * 2.0**-9
    return weight


def make(folder):
    """Makes the file, of rows of odd length."""
    weight = hostile(12, 45)
    codes, scales = fp8_parts(weight)
    parts = {"weight": weight, "fp8_codes": codes.view(torch.uint8).flatten().int(), "fp8_scales": scales.float()}
    save_file(parts, folder / "row_codes.safetensors")
