"""Makes the models of MODELS in FP8 and NVFP4, from others in tiny: torch and compressed-tensors pack their weights, and
transformers answers in float32 with the weights that these read back.

    pip install torch==2.15.0 transformers==5.24.0 compressed-tensors==0.20.0
    python float_packings.py NAME...
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tiny_hf import HERE, answers

E4M3 = torch.float8_e4m3fn
LARGEST, LARGEST_E2M1 = 448.0, 6.0


def block_fp8(w, rows, cols, dtype=torch.float32):
    """Returns the tensors of a module in FP8 with scales of blocks, and its weight in float32."""
    n, k = w.shape
    down, across = -(-n // rows), -(-k // cols)
    padded = torch.zeros(down * rows, across * cols)
    padded[:n, :k] = w
    scale = (padded.reshape(down, rows, across, cols).abs().amax((1, 3)) / LARGEST).clamp(min=1e-12).to(dtype)
    each = scale.float().repeat_interleave(rows, 0)[:n].repeat_interleave(cols, 1)[:, :k]
    codes = (w / each).clamp(-LARGEST, LARGEST).to(E4M3)
    return {"weight": codes, "weight_scale_inv": scale}, codes.float() * each


def row_fp8(w, whole=False):
    """The same with a scale for each row, or for the whole matrix."""
    scale = w.abs().amax(1, keepdim=True) / LARGEST
    if whole:
        scale = scale.amax().reshape(())
    codes = (w / scale).clamp(-LARGEST, LARGEST).to(E4M3)
    return {"weight": codes, "weight_scale": scale, "input_scale": torch.tensor(0.5)}, codes.float() * scale


def nvfp4_scales(w):
    """Returns the scales of groups of 16 in E4M3, and what multiplies them."""
    factor = w.abs().amax() / (LARGEST * LARGEST_E2M1)
    return (w.reshape(w.shape[0], -1, 16).abs().amax(-1) / LARGEST_E2M1 / factor).clamp(max=LARGEST).to(E4M3), factor


def compressed_nvfp4(w):
    """NVFP4 as compressed-tensors packs it, with its code."""
    scale, factor = nvfp4_scales(w)
    args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    state = {"weight": w, "weight_scale": scale.float(), "weight_global_scale": (1 / factor).reshape(1)}
    packed = NVFP4PackedCompressor.compress(state, scheme)
    out = {k: v for k, v in packed.items() if v is not None} | {"input_global_scale": torch.tensor([3.0])}
    # NVFP4PackedCompressor.decompress rounds to bfloat16.
    values = unpack_fp4_from_uint8(packed["weight_packed"], *w.shape, dtype=torch.float32)
    each = packed["weight_scale"].float() / packed["weight_global_scale"].float()
    return out, values * each.repeat_interleave(16, 1)


def modelopt_nvfp4(w):
    """NVFP4 as ModelOpt stores it: the scale of the whole matrix multiplies."""
    scale, factor = nvfp4_scales(w)
    each = (scale.float() * factor).repeat_interleave(16, 1)
    table = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    x = torch.where(each == 0, 0, w / each)
    values = table[(x.abs().unsqueeze(-1) - table).abs().argmin(-1)] * torch.where(x < 0, -1.0, 1.0)
    codes = pack_fp4_to_uint8(values)
    values = unpack_fp4_from_uint8(codes, *w.shape, dtype=torch.float32)
    return {"weight": codes, "weight_scale": scale, "weight_scale_2": factor, "input_scale": torch.tensor(0.5)}, values * each


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [48, 32],
       "modules_to_not_convert": ["lm_head"]}


def compressed_config(form, **keys):
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"type": "float", "symmetric": True, **keys},
                                          "input_activations": {"num_bits": keys["num_bits"], "type": "float"}}},
            "ignore": ["lm_head", "re:.*mlp.gate$"]}


NVFP4 = compressed_config("nvfp4-pack-quantized", num_bits=4, strategy="tensor_group", group_size=16)
ROWS = compressed_config("float-quantized", num_bits=8, strategy="channel")
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],
            "producer": {"name": "modelopt", "version": "0.33.0"}}

# The tiny model whose weights are packed, how a matrix is, and the quantization_config.
MODELS = {
    "qwen3_fp8": ("qwen3", lambda w: block_fp8(w, 48, 32), FP8),
    "deepseek_v3_fp8": ("deepseek_v3_original", lambda w: block_fp8(w, 48, 32, torch.bfloat16), FP8),
    "qwen3_moe_nvfp4": ("qwen3_moe", compressed_nvfp4, NVFP4),
    "llama_nvfp4": ("llama", modelopt_nvfp4, MODELOPT),
    "llama_fp8": ("llama", row_fp8, ROWS),
}


def is_packed(name, w):
    plain = ("embed_tokens", "lm_head", "mlp.gate.weight", "norm", "eh_proj")
    return w.ndim == 2 and not any(part in name for part in plain) and w.shape[1] % 32 == 0


@torch.no_grad()
def pack_model(source, out, pack, quantization):
    """Packs the model in the folder source into the folder out. Returns the model of transformers with the weights that
    the packings encode, in float32."""
    files, plain = {}, {}
    for name, w in load_file(source / "model.safetensors").items():
        files[name], plain[name] = w, w.float()
        if is_packed(name, w):
            del files[name]
            tensors, plain[name] = pack(w.float())
            files |= {name.removesuffix("weight") + part: t.contiguous() for part, t in tensors.items()}
    config = json.loads((source / "config.json").read_text())
    out.mkdir(exist_ok=True)
    save_file(files, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}, indent=2) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        save_file({k: v.contiguous() for k, v in plain.items()}, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        (Path(folder) / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def write_model(name):
    source, pack, quantization = MODELS[name]
    out = HERE / name
    model = pack_model(HERE / source, out, pack, quantization)
    (out / "generation_config.json").write_text((HERE / source / "generation_config.json").read_text())
    prompts = [x["ids"] for x in json.loads((HERE / source / "expected.json").read_text())]
    with torch.no_grad():
        (out / "expected.json").write_text(json.dumps([answers(model, ids) for ids in prompts]))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_model(name)
