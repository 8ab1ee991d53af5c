"""Goldens of weights in 4-bit NormalFloat, by bitsandbytes (pip install bitsandbytes).

nf4.safetensors   weight [rows, columns], and what bitsandbytes makes of it with double quantisation:
  codes, scales, groups, offset    as strata/ops/nf4_format.h has them
  levels, scale_values             what codes and scales stand for
  decoded                          the numbers that come back, in f32
Its metadata has the version of bitsandbytes.

Where its code for CPUs depends on the machine or is coarser than its format, the format counts, of which every bit has
one right value: the offset is the mean in f64, rounded once (bitsandbytes adds in f32), and a scale takes the nearest
value (bitsandbytes takes the second nearest for 1 in 600, which lie about in the middle).
"""

import bitsandbytes
import torch
from bitsandbytes import functional
from safetensors.torch import save_file

from common import draw, generator, require

BLOCK, GROUP = 64, 256


def nearest(scales, code):
    """Returns the places in `code` of the values nearest to the scales of groups, and the scales of these."""
    places, groups = [], []
    for group in scales.split(GROUP):
        groups.append(group.abs().max())
        distances = ((group / groups[-1]).double()[:, None] - code.double()).abs()
        places.append(distances.argmin(1))
    return torch.cat(places), torch.stack(groups)


def quantised(weight):
    """Returns the parts of a matrix in 4 bits, and the matrix that they stand for, in f32."""
    row = weight.float().reshape(1, -1)  # what decodes on a CPU takes no rows shorter than a block
    codes, state = functional.quantize_4bit(row, blocksize=BLOCK, quant_type="nf4")
    offset = state.absmax.double().mean().float()
    theirs, nested = functional.quantize_blockwise(state.absmax - offset, blocksize=GROUP)
    scales, groups = nearest(state.absmax - offset, nested.code)
    require(torch.equal(groups, nested.absmax), "scales of groups differ")
    off = (scales - theirs.long()).abs()
    require(off.max() <= 1 and off.sum() <= 1 + len(off) / 100, "scales are not the nearest ones")
    state.absmax = nested.code[scales] * groups.repeat_interleave(GROUP)[: len(scales)] + offset
    parts = {
        "codes": codes.flatten().int(),
        "scales": scales.int(),
        "groups": groups,
        "offset": offset.reshape(1),
        "levels": state.code,
        "scale_values": nested.code,
    }
    return parts, functional.dequantize_4bit(codes, state).reshape(weight.shape)


def make(folder):
    """Makes the file: 280 blocks, so that the last group is a part of one."""
    weight = draw(generator(6000), 40, 448, std=0.05).bfloat16()
    weight[7] *= 100  # rows apart from the others
    weight[9] *= 0.01
    parts, decoded = quantised(weight)
    made_by = {"bitsandbytes": bitsandbytes.__version__}
    save_file({"weight": weight, "decoded": decoded, **parts}, folder / "nf4.safetensors", metadata=made_by)
