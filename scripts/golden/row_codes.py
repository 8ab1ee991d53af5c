"""Goldens of weights in codes of a byte with a scale for each row, by PyTorch; the codes in int8 are bitsandbytes'
wherever its products with 127 / absmax, in f32, are neither infinite nor about in the middle of two codes.

row_codes.safetensors   weight [rows, columns], bf16, and what becomes of it:
  fp8_codes, fp8_scales    its codes in e4m3, as bytes, and their scales, as strata/ops/row_codes.h has them
  int8_codes, int8_scales  the same in int8
"""

import torch
from safetensors.torch import save_file

from common import draw, generator, require

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


def int8_parts(weight):
    """Returns the codes of a matrix in int8, and the scales."""
    scales = weight.float().abs().amax(1) / 127
    levels = weight.double() / scales.double()[:, None]
    return levels.nan_to_num(0).round().clamp(-127, 127).to(torch.int8), scales


def in_int8(weight):
    """Returns the matrix that they stand for, in f64."""
    codes, scales = int8_parts(weight)
    return codes.double() * scales.double()[:, None]


def compare_with_bitsandbytes(weight):
    from bitsandbytes import functional

    codes, scales = int8_parts(weight)
    theirs, largest, _ = functional.int8_vectorwise_quant(weight.float())
    require(torch.equal(largest / 127, scales), "scales in int8 differ")
    levels = weight.double() / scales.double()[:, None]
    clear = ((levels - levels.floor() - 0.5).abs() > 1e-4) & (127 / largest).isfinite()[:, None]
    require(clear.float().mean() > 0.7 and torch.equal(theirs[clear], codes[clear]), "codes in int8 differ")


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
    compare_with_bitsandbytes(weight)
    parts = {"weight": weight}
    for name, (codes, scales) in {"fp8": fp8_parts(weight), "int8": int8_parts(weight)}.items():
        parts[f"{name}_codes"] = codes.view(torch.uint8).flatten().int()
        parts[f"{name}_scales"] = scales.float()
    save_file(parts, folder / "row_codes.safetensors")
