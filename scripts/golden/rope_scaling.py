"""The frequencies that transformers computes for scaled rotary embeddings, as rope_scaling.json.

Each case is a config.json's part about the embedding, the tokens of a row, the frequencies of its pairs of dimensions,
and what cosines and sines are multiplied by.
"""

import json

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LONG = {"rope_type": "longrope", "original_max_position_embeddings": 64, "short_factor": [1.0, 1.0, 1.5, 2.0],
        "long_factor": [1.0, 2.5, 8.0, 30.0]}
PHI3 = {"rope_type": "longrope", "original_max_position_embeddings": 4096,
        "short_factor": [1 + i / 32 for i in range(48)], "long_factor": [1 + i * i / 64 for i in range(48)]}
CASES = {
    "linear": (128, 10000.0, 8192, {"rope_type": "linear", "factor": 8.0}),
    "dynamic": (64, 10000.0, 4096, {"rope_type": "dynamic", "factor": 4.0}),
    "yarn of Qwen2.5": (128, 1000000.0, 131072, YARN),
    "yarn without an original length": (64, 10000.0, 4096, {"rope_type": "yarn", "factor": 2.0}),
    "yarn, bounds not moved": (64, 10000.0, 8192, YARN | {"truncate": False, "original_max_position_embeddings": 512}),
    "yarn with its own bounds": (96, 500000.0, 8192, YARN | {"beta_fast": 16.0, "beta_slow": 2.0}),
    "yarn with one bound": (16, 10000.0, 8192, YARN | {"beta_fast": 1.0, "original_max_position_embeddings": 7}),
    "yarn with an attention factor": (128, 10000.0, 8192, YARN | {"attention_factor": 1.5}),
    "yarn with mscale": (64, 10000.0, 163840, YARN | {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.5}),
    "yarn with mscale alone": (64, 10000.0, 163840, YARN | {"mscale": 2.0}),
    "longrope of Phi-3, short": (96, 10000.0, 131072, PHI3),
    "longrope of Phi-3, long": (96, 10000.0, 131072, PHI3, 4097),
    "longrope with a factor": (8, 10000.0, 512, LONG | {"factor": 4.0}, 64),
    "longrope with an attention factor": (8, 10000.0, 512, LONG | {"attention_factor": 1.25}, 65),
    "llama3": (128, 500000.0, 131072, {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                       "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
}


def case_of(name, head_dim, theta, longest, scaling, row_tokens=1):
    keys = {"head_dim": head_dim, "max_position_embeddings": longest}
    rope = scaling | {"rope_theta": theta}
    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, rope_parameters=dict(rope), **keys)
    frequencies, magnitude = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu", seq_len=row_tokens)
    return {
        "name": name,
        **keys,
        "row_tokens": row_tokens,
        "rope_parameters": rope,
        "frequencies": frequencies.tolist(),
        "magnitude": magnitude,
    }


def make(folder):
    cases = [json.dumps(case_of(name, *case)) for name, case in CASES.items()]
    (folder / "rope_scaling.json").write_text('{"cases": [\n' + ",\n".join(cases) + "\n]}\n")
