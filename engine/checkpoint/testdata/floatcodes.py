"""Writes floatcodes.json, golden values of FP8 and NVFP4 that the original libraries compute.

    pip install torch compressed-tensors==0.20.0 'mlx[cpu]==0.32.4'
    python floatcodes.py
"""

import json
from pathlib import Path

import mlx.core as mx
import torch
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8

N, K, BLOCK = 130, 288, 128


def codes(n, k, avoid=()):
    """Bytes in no simple order. Those in avoid are replaced."""
    x = torch.arange(n * k, dtype=torch.int64).reshape(n, k)
    x = (x * 2654435761 >> 7) % 256
    for a in avoid:
        x[x == a] = 1
    return x.to(torch.uint8)


def number(x):
    return None if x != x else x


def main():
    out = {"e4m3": [number(x) for x in torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn).float().tolist()]}

    values = codes(N, K, (127, 255)).view(torch.float8_e4m3fn).float()
    scales = torch.tensor([[0.013, 0.00027, 1.9], [0.4, 0.0081, 0.00013]])  # of ragged blocks
    each = scales.repeat_interleave(BLOCK, 0)[:N].repeat_interleave(BLOCK, 1)[:, :K]
    places = [(r, c) for r in (0, 1, 77, 127, 128, 129) for c in (0, 5, 127, 128, 200, 255, 256, 287)]
    out["fp8"] = {
        "scales": scales.flatten().tolist(),
        "places": places,
        "values": [(values * each)[r, c].item() for r, c in places],
    }

    n, k = 6, 96
    packed, small = codes(n, k // 2), codes(n, k // 16, (127, 255))
    global_scale = torch.tensor(1234.5)
    factor = small.view(torch.float8_e4m3fn).float()
    elements = unpack_fp4_from_uint8(packed, n, k, dtype=torch.float32)
    divided = elements * (factor / global_scale).repeat_interleave(16, 1)
    small = small & 127  # MLX writes no sign
    mlx = mx.dequantize(
        mx.array(packed.numpy()).view(mx.uint32), mx.array(small.numpy()), group_size=16, bits=4,
        mode="nvfp4", global_scale=mx.array(3.25), dtype=mx.float32)
    plain = mx.dequantize(
        mx.array(packed.numpy()).view(mx.uint32), mx.array(small.numpy()), group_size=16, bits=4,
        mode="nvfp4", dtype=mx.float32)
    out["nvfp4"] = {"divided": divided.flatten().tolist(), "mlx": mlx.flatten().tolist(), "plain": plain.flatten().tolist()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(out))


main()
