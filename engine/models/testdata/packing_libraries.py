"""Packs weights as AutoAWQ, AutoGPTQ, GPTQModel and compressed-tensors do, with the code of these libraries, and
dequantizes them with the same code.

    pip install torch==2.15.0 transformers==5.24.0 compressed-tensors==0.20.0
    pip download --no-deps autoawq==0.2.9 auto-gptq==0.7.1 gptqmodel==7.7.0   # unpack all three into one folder
    export PACKING_LIBRARIES=that/folder
    python packing_libraries.py matrices   # writes engine/checkpoint/testdata/packings.safetensors
    python packing_libraries.py NAME...    # writes the tiny models of the table MODELS

Only single files of the three libraries are loaded, because the rest needs a GPU.
"""

import ast
import importlib.util
import json
import os
import sys
import types
import zlib
from pathlib import Path

import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from tiny_hf import HERE, answers

LIBRARIES = Path(os.environ["PACKING_LIBRARIES"])


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, next(LIBRARIES.glob(path)))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_awq():
    for package in ("awq", "awq.utils", "awq.modules", "awq.modules.triton"):
        sys.modules[package] = types.ModuleType(package)
    load("autoawq-*/awq/utils/module.py", "awq.utils.module")
    utils = types.ModuleType("awq.utils.utils")
    utils.get_best_device = lambda: "cpu"
    sys.modules["awq.utils.utils"] = utils
    packing = load("autoawq-*/awq/utils/packing_utils.py", "awq.utils.packing_utils")
    return load("autoawq-*/awq/modules/linear/gemm.py", "awq_gemm"), packing


def load_gptqmodel():
    """Returns the function dequantize_weight of GPTQModel, for codes in words of 32 bits."""
    path = next(LIBRARIES.glob("gptqmodel-*/gptqmodel/nn_modules/qlinear/__init__.py"))
    functions = {}
    space = {"t": torch, "_torch_right_shift": torch.bitwise_right_shift, "_torch_left_shift": torch.bitwise_left_shift}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name in ("dequantize_weight", "_dequantize_from_codes"):
            exec(compile(ast.Module([node], []), str(path), "exec"), space)
            functions[node.name] = space[node.name]
    return functions


AWQ, AWQ_PACKING = load_awq()
AUTOGPTQ = load("auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py", "autogptq_linear")
AUTOGPTQ_SORTED = load("auto_gptq/nn_modules/qlinear/qlinear_cuda.py", "autogptq_sorted_linear")  # reads g_idx
GPTQMODEL = load_gptqmodel()


def ranges(w, bits, group, symmetric):
    """Returns scales [n, groups] in float16 and zero points for the groups of w [n, k]."""
    grouped = w.reshape(w.shape[0], -1, group)
    low, high = grouped.amin(-1).clamp(max=0), grouped.amax(-1).clamp(min=0)
    if symmetric:
        high = torch.maximum(high, -low)
        low = -high
    scale = ((high - low) / (2**bits - 1)).half().clamp(min=2.0**-20)
    zero = torch.full_like(low, 2 ** (bits - 1)) if symmetric else (-low / scale.float()).round()
    return scale, zero.clamp(0, 2**bits - 1)


def awq(w, group):
    """Returns the tensors of a module, and its weight in float32."""
    scale, zero = ranges(w, 4, group, False)
    linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
    # from_linear does not clamp
    limit = lambda x: x.repeat_interleave(group, 1)
    linear.weight.data = torch.minimum(torch.maximum(w, limit(-zero * scale)), limit((15 - zero) * scale))
    m = AWQ.WQLinear_GEMM.from_linear(linear, 4, group, scales=scale.float().t().contiguous(),
                                      zeros=zero.t().contiguous())
    weight = AWQ_PACKING.dequantize_gemm(m.qweight, m.qzeros, m.scales.float(), 4, group).t()
    return {"qweight": m.qweight, "qzeros": m.qzeros, "scales": m.scales}, weight


def activation_order(k, seed=0):
    """An order of inputs, which those of the same number share, as the matrices of one activation do."""
    return torch.randperm(k, generator=torch.Generator().manual_seed(seed + k))


def gptq(w, bits, group, symmetric=True, v2=False, order=None):
    n, k = w.shape
    group = group if group > 0 else k
    library = AUTOGPTQ if order is None else AUTOGPTQ_SORTED
    order = torch.arange(k) if order is None else order
    g_idx = (torch.argsort(order) // group).to(torch.int32)
    scale, zero = ranges(w[:, order], bits, group, symmetric)
    if not v2:
        zero = zero.clamp(min=1)  # AutoGPTQ subtracts one, and has no zero point of 0
    limit = lambda x: x[:, g_idx.long()]
    linear = torch.nn.Linear(k, n, bias=False)
    linear.weight.data = torch.minimum(torch.maximum(w, limit(-zero * scale)), limit((2**bits - 1 - zero) * scale))
    m = library.QuantLinear(bits, group, k, n, False, weight_dtype=torch.float32)
    stored = zero.clone() + (1 if v2 else 0)
    m.pack(linear, scale.float(), zero.clone(), g_idx)
    if v2:  # the zero points themselves, where AutoGPTQ stores one less
        codes = m.qweight
        m.pack(linear, scale.float(), stored, g_idx)
        m.qweight = codes
    out = {"qweight": m.qweight, "qzeros": m.qzeros, "scales": scale.t().contiguous(),
           "g_idx": g_idx}
    return out, gptq_weight(out, bits, v2)


def gptq_weight(tensors, bits, v2):
    qzeros = tensors["qzeros"]
    if not v2 and bits != 3:
        qzeros = (qzeros.to(torch.int64) + 0xFFFFFFFF // (2**bits - 1)).to(torch.int32)  # as GPTQModel does
    elif not v2:
        k, n = tensors["g_idx"].numel(), tensors["scales"].shape[1]
        in_another_order = not torch.equal(tensors["g_idx"], tensors["g_idx"].sort().values)
        library = AUTOGPTQ_SORTED if in_another_order else AUTOGPTQ
        m = library.QuantLinear(bits, k // tensors["scales"].shape[0], k, n, False, weight_dtype=torch.float32)
        m.autogptq_cuda_available, m.g_idx = False, tensors["g_idx"]
        m.qweight, m.qzeros, m.scales = tensors["qweight"], qzeros, tensors["scales"].float()
        return m(torch.eye(k)).t().detach()
    wf = torch.tensor(list(range(0, 32, bits)), dtype=torch.int32).unsqueeze(0)
    if bits == 3:
        wf = torch.tensor([[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0], [0, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31],
                           [0, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0]], dtype=torch.int32).reshape(1, 3, 12)
    m = types.SimpleNamespace(planar=False, bits=bits, maxq=2**bits - 1, pack_factor=32 // bits,
                              dequant_dtype=torch.int16 if bits == 8 else torch.int8, qzeros=qzeros,
                              qweight=tensors["qweight"], scales=tensors["scales"].float(), g_idx=tensors["g_idx"],
                              in_features=tensors["g_idx"].numel(), _init_wf_unsqueeze_buffers=lambda: None,
                              wf_unsqueeze_zero=wf.unsqueeze(0) if bits != 3 else wf.reshape(1, 1, 3, 12),
                              wf_unsqueeze_neg_one=wf.unsqueeze(-1) if bits != 3 else wf.reshape(1, 3, 12, 1))
    m._dequantize_from_codes = lambda *a, **b: GPTQMODEL["_dequantize_from_codes"](m, *a, **b)
    return GPTQMODEL["dequantize_weight"](m).t()


def compressed(w, bits, group, symmetric=True, dtype=torch.bfloat16):
    k = w.shape[1]
    scale, zero = ranges(w, bits, group if group > 0 else k, symmetric)
    keys = {"num_bits": bits, "type": "int", "symmetric": symmetric}
    keys |= {"strategy": "group", "group_size": group} if group > 0 else {"strategy": "channel"}
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**keys))
    state = {"weight": w, "weight_scale": scale.to(dtype),
             "weight_zero_point": (zero - 2 ** (bits - 1)).to(torch.int8)}
    packed = PackedQuantizationCompressor.compress(state, scheme)
    wide = packed | {"weight_scale": packed["weight_scale"].float()}
    return dict(packed), PackedQuantizationCompressor.decompress(wide, scheme)["weight"]


MATRICES = {
    "awq.g32": lambda w: awq(w, 32),
    "awq.g64": lambda w: awq(w, 64),
    "awq.g128": lambda w: awq(w, 128),
    **{f"gptq.b{bits}.g{group}.{kind}": lambda w, bits=bits, group=group, symmetric=symmetric, v2=v2:
       gptq(w, bits, group, symmetric, v2)
       for bits, group, symmetric, v2, kind in [
           (2, 32, True, False, "sym"), (3, 64, False, False, "v1"), (3, 32, True, True, "sym_v2"),
           (3, 128, False, True, "v2"), (4, 128, True, False, "sym"), (4, 32, False, False, "v1"),
           (4, 64, False, True, "v2"), (4, -1, True, False, "sym"), (8, 128, True, False, "sym"),
           (8, -1, False, True, "v2")]},
    **{f"gptq.b{bits}.g{group}.{kind}": lambda w, bits=bits, group=group, symmetric=symmetric, v2=v2:
       gptq(w, bits, group, symmetric, v2, activation_order(w.shape[1]))
       for bits, group, symmetric, v2, kind in [
           (4, 128, True, False, "sym_order"), (3, 32, False, False, "order"), (8, 64, False, True, "order_v2")]},
    **{f"compressed.b{bits}.g{group}.{kind}": lambda w, bits=bits, group=group, symmetric=symmetric, dtype=dtype:
       compressed(w, bits, group, symmetric, dtype)
       for bits, group, symmetric, dtype, kind in [
           (4, 128, True, torch.bfloat16, "sym"), (4, 32, True, torch.float16, "sym_f16"),
           (4, 64, False, torch.bfloat16, "zeros"), (4, -1, True, torch.bfloat16, "sym"),
           (8, 128, True, torch.bfloat16, "sym"), (8, -1, False, torch.float16, "zeros"),
           (3, 32, False, torch.bfloat16, "zeros")]},
}


def write_matrices():
    out = {}
    for name, pack in MATRICES.items():
        torch.manual_seed(zlib.crc32(name.encode()))
        tensors, weight = pack(torch.randn(32, 256) / 16 + 0.02)
        assert weight.dtype == torch.float32 and weight.shape == (32, 256), (name, weight.dtype, weight.shape)
        for part, t in tensors.items():
            out[f"{name}.{part}"] = t.contiguous()
        out[name + ".expected"] = weight[::3].contiguous()  # enough rows for every place in a word
    path = Path(__file__).parents[2] / "checkpoint" / "testdata" / "packings.safetensors"
    path.parent.mkdir(exist_ok=True)
    save_file(out, path)


def weights(bits, group, **keys):
    return {"num_bits": bits, "type": "int", "strategy": "group" if group > 0 else "channel", "group_size": group or None,
            "actorder": None, "dynamic": False, "observer": "minmax", "symmetric": True, **keys}


# The tiny model whose weights are packed, how a module is packed (None: it stays plain), and the quantization_config.
MODELS = {
    "llama_awq": ("llama", lambda name, w: None if name == "lm_head" or ".3.mlp" in name else awq(w, 64), {
        "quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "zero_point": True,
        "modules_to_not_convert": ["layers.3.mlp"]}),
    "qwen3_gptq": ("qwen3", lambda name, w: gptq(w, 8 if "down_proj" in name else 4, 32, "o_proj" not in name), {
        "quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False, "lm_head": False,
        "checkpoint_format": "gptq", "dynamic": {r"+:.*\.down_proj": {"bits": 8}, r".*\.o_proj": {"sym": False}},
        "damp_percent": 0.01, "static_groups": False, "true_sequential": True}),
    # Queries and keys have other orders than values; o_proj is of 8 bits, and its order differs from that of down_proj.
    "qwen3_gptq_sorted": ("qwen3", lambda name, w: gptq(w, 8 if "o_proj" in name else 4, 32, True,
                                                        order=activation_order(w.shape[1], "v_proj" in name)), {
        "quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": True,
        "checkpoint_format": "gptq", "dynamic": {r".*\.o_proj": {"bits": 8}}}),
    "llama_compressed": ("llama", lambda name, w: None if ".0.mlp.gate" in name else
                         compressed(w, 8, 0) if "down_proj" in name else compressed(w, 4, 32, "v_proj" not in name), {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": weights(4, 32), "input_activations": None,
                        "output_activations": None},
            "group_1": {"targets": ["re:.*down_proj$"], "weights": weights(8, 0)},
            "group_2": {"targets": ["re:.*v_proj$"], "weights": weights(4, 32, symmetric=False)}},
        "ignore": ["model.layers.0.mlp.gate_proj"], "kv_cache_scheme": None, "global_compression_ratio": None}),
}


@torch.no_grad()
def pack_model(source, out, pack, quantization):
    """Packs the model in the folder source into the folder out. Returns the model of transformers with the weights that
    the libraries read, in float32."""
    config = json.loads((source / "config.json").read_text())
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(source), dtype=torch.float32,
                                             attn_implementation="eager").eval()
    files, plain = {}, {}
    for tensor, w in load_file(source / "model.safetensors").items():
        module = tensor.removesuffix(".weight")
        packed = None
        if w.ndim == 2 and not tensor.endswith("embed_tokens.weight"):
            packed = pack(module, w.float())
        if packed is None:
            files[tensor], plain[tensor] = w, w.float()
            continue
        for part, t in packed[0].items():
            files[f"{module}.{part}"] = t.contiguous()
        plain[tensor] = packed[1]
    missing, unexpected = model.load_state_dict(plain, strict=False)
    assert not unexpected and missing in ([], ["lm_head.weight"]), (missing, unexpected)
    out.mkdir(exist_ok=True)
    save_file(files, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}, indent=2) + "\n")
    return model


def write_model(name):
    source, pack, quantization = MODELS[name]
    out = HERE / name
    model = pack_model(HERE / source, out, pack, quantization)
    (out / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}) + "\n")
    prompts = [x["ids"] for x in json.loads((HERE / "qwen3" / "expected.json").read_text())]
    with torch.no_grad():
        (out / "expected.json").write_text(json.dumps([answers(model, ids) for ids in prompts]))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_matrices() if name == "matrices" else write_model(name)
