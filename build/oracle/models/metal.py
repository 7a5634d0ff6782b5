"""Runs MLX's Metal kernels for packing on a CPU: their text, which the mlx package has, is compiled
as C++ with metal.h. It is what mlx-lm computes on a Mac. On a CPU, MLX rounds otherwise."""

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np

KERNELS = Path(mx.__file__).parent / "include/mlx/backend/metal/kernels"
TYPES = {mx.float32: "float", mx.float16: "float16_t", mx.bfloat16: "bfloat16_t"}
AFFINE = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


def cut(text, start):
    """The declaration in text that begins with start, to the end of its braces."""
    begin = text.index(start)
    depth, at = 0, text.index("{", begin)
    while True:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return text[begin:at] + ";\n"


def source():
    """The C++ of all kernels."""
    affine, fp = (KERNELS / f"{name}.h" for name in ("quantized", "fp_quantized"))
    affine, fp = affine.read_text(), fp.read_text()
    parts = [Path(__file__).with_name("metal.h").read_text()]
    for name in ("fp4.h", "fp8.h"):
        parts.append((KERNELS / name).read_text().replace("#pragma once", ""))
    for name in ("get_pack_factor", "get_bytes_per_pack"):
        start = f"template <int bits, int wsize = 8>\ninline constexpr short {name}"
        parts.append(cut(affine, start))
    parts.append(cut(fp, "template <int bits>\nstruct Quantize "))
    for text, name in ((affine, "affine_quantize"), (fp, "fp_quantize")):
        found = re.search(r"template <[^>]*>\n\[\[kernel\]\] void " + name + r"\(", text)
        parts.append(cut(text, found[0]))
    text = "".join(parts)
    return re.sub(r"\[\[[^\]]*\]\]", "", text) + "".join(entries())


def entries():
    for dtype in TYPES.values():
        for bits, group in AFFINE:
            yield (f'extern "C" void affine_{dtype}_{bits}_{group}(const {dtype} *w, uint8_t *q, '
                   f"{dtype} *s, {dtype} *b, unsigned n) {{ for (unsigned at = 0; at < n / "
                   f"({group} / 32); at += 32) run([&](int i) {{ affine_quantize<{dtype}, {group}, "
                   f"{bits}>(w, q, s, b, uint2{{at + i, 0}}, uint2{{n, 1}}); }}); }}\n")
        for name, (bits, group) in MODES.items():
            yield (f'extern "C" void {name}_{dtype}(const {dtype} *w, uint8_t *q, uint8_t *s, '
                   f"unsigned n) {{ for (unsigned at = 0; at < n; at += 32) run([&](int i) {{ "
                   f"fp_quantize<{dtype}, {group}, {bits}, false>(w, q, s, nullptr, "
                   f"uint2{{at + i, 0}}, uint2{{n, 1}}, i); }}); }}\n")


def compiled():
    with tempfile.TemporaryDirectory() as folder:
        cpp, so = Path(folder, "metal.cpp"), Path(folder, "metal.so")
        cpp.write_text(source())
        subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-mf16c", "-ffp-contract=off", "-shared",
                        "-fPIC", "-o", so, cpp], check=True)
        return ctypes.CDLL(so)


library = None


def quantize(w, group_size=None, bits=None, mode="affine", global_scale=None, **_):
    """mx.quantize as on a Mac."""
    global library
    library = library or compiled()
    default = {"affine": (4, 64), **MODES}[mode]
    bits, group_size = bits or default[0], group_size or default[1]
    mx.eval(w)
    *rows, width = w.shape
    x = np.ascontiguousarray(np.array(w.view(mx.uint32 if w.dtype == mx.float32 else mx.uint16)))
    codes = np.zeros((*rows, width * bits // 32), np.uint32)
    groups = (*rows, width // group_size)
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
    if mode == "affine":
        scales, biases = np.zeros(groups, x.dtype), np.zeros(groups, x.dtype)
        getattr(library, f"affine_{TYPES[w.dtype]}_{bits}_{group_size}")(
            pointer(x), pointer(codes), pointer(scales), pointer(biases), ctypes.c_uint(x.size))
        return (mx.array(codes), mx.array(scales).view(w.dtype), mx.array(biases).view(w.dtype))
    scales = np.zeros(groups, np.uint8)
    getattr(library, f"{mode}_{TYPES[w.dtype]}")(
        pointer(x), pointer(codes), pointer(scales), ctypes.c_uint(x.size))
    return mx.array(codes), mx.array(scales)
