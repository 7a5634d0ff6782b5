"""Compares Headroom with Hugging Face transformers on checkpoints that AutoAWQ, AutoGPTQ, GPTQModel
and compressed-tensors pack, and in FP8: `make oracle ARGS=--packings`, for other rows with TYPES.

The models are those of originals.py. The libraries pack their matrices, and transformers computes
with the weights that the same libraries read back, in float32. What compressed-tensors packs is
also read by transformers itself; its scales are float32 here, because transformers rounds weights
to the type of the scales. engine/models/testdata/packing_libraries.py has the calls of the
libraries, and says what to install and what PACKING_LIBRARIES is.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from transformers import AutoConfig, AutoModelForCausalLM, CompressedTensorsConfig

import originals
import server
import weights

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "engine/models/testdata"))
import float_packings as floats  # noqa: E402 -- after the path of it
import packing_libraries as libraries  # noqa: E402

TYPES = ("llama", "qwen3", "qwen2", "mistral")


def compressed(bits, group, **keys):
    scheme = libraries.weights(bits, group, **keys)
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
            "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme}}}


def pack_compressed(w, bits, group, symmetric=True):
    return libraries.compressed(w, bits, group, symmetric, torch.float32)


def gptq(bits, group, symmetric, form="gptq", **keys):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric,
            "desc_act": False, "checkpoint_format": form, **keys}


# How a matrix is packed, whether the head is, and the quantization_config.
PACKINGS = {
    "awq": (lambda w: libraries.awq(w, 32), False,
            {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}),
    "gptq 4 bits": (lambda w: libraries.gptq(w, 4, 32), False, gptq(4, 32, True)),
    "gptq 4 bits, head": (lambda w: libraries.gptq(w, 4, 32, False), True,
                          gptq(4, 32, False, lm_head=True)),
    "gptq 4 bits, v2": (lambda w: libraries.gptq(w, 4, 32, False, v2=True), False,
                        gptq(4, 32, False, "gptq_v2")),
    "gptq 4 bits, sorted": (lambda w: libraries.gptq(
        w, 4, 32, order=libraries.activation_order(w.shape[1])), False,
        gptq(4, 32, True) | {"desc_act": True}),
    # The matrices of an activation have other orders.
    "gptq 8 bits, sorted": (lambda w: libraries.gptq(
        w, 8, 32, False, order=libraries.activation_order(w.shape[1], w.shape[0])), True,
        gptq(8, 32, False, lm_head=True) | {"desc_act": True}),
    "gptq 3 bits": (lambda w: libraries.gptq(w, 3, 32), False, gptq(3, 32, True)),
    "gptq 2 bits": (lambda w: libraries.gptq(w, 2, 32, False), False, gptq(2, 32, False)),
    "gptq 8 bits, rows": (lambda w: libraries.gptq(w, 8, -1), False, gptq(8, -1, True)),
    "compressed 4 bits": (lambda w: pack_compressed(w, 4, 32), False, compressed(4, 32)),
    "compressed 4 bits, zero points": (lambda w: pack_compressed(w, 4, 32, False), False,
                                       compressed(4, 32, symmetric=False)),
    "compressed 8 bits, rows": (lambda w: pack_compressed(w, 8, 0), False, compressed(8, 0)),
}


def fbgemm(w):
    """As FBGEMM stores FP8: a scale for each row, and a bound of the activations."""
    tensors, weight = floats.row_fp8(w)
    tensors["input_scale_ub"] = tensors.pop("input_scale").reshape(1)
    return tensors, weight


PACKINGS |= {
    "fp8, blocks, e8m0": (lambda w: floats.block_fp8(w, 32, 32, torch.float8_e8m0fnu), False,
                          floats.FP8 | {"weight_block_size": [32, 32], "scale_fmt": "ue8m0"}),
    "fp8, fbgemm": (fbgemm, False, {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0,
                                    "modules_to_not_convert": ["lm_head"]}),
}


def log_probabilities(model, ids):
    with torch.no_grad():
        rows = model(torch.tensor([ids]), use_cache=False).logits[0].float()
    return np.array(torch.log_softmax(rows, -1))


def ask(headroom, folder, ids):
    with server.Server(headroom, folder, context=len(ids) + 2) as s:
        return s.complete({"prompt": ids, "echo": True, "logprobs": 20, "max_tokens": 1,
                           "temperature": 0})


def check(source, folder, packing, headroom, compare, ids):
    """Returns the largest difference of a packing of the model in source, and its position."""
    pack, head, quantization = PACKINGS[packing]

    def module(name, w):
        small = w.shape[0] % 32 or w.shape[1] % 32
        return None if small or name.endswith("lm_head") and not head else pack(w)

    shutil.rmtree(folder, ignore_errors=True)
    model = libraries.pack_model(source, folder, module, quantization)
    (folder / "tokenizer.json").write_text(json.dumps(weights.tokenizer()))
    reply = ask(headroom, folder, ids)
    found = compare(reply, ids, log_probabilities(model, ids))
    if not packing.startswith("compressed"):
        return found
    read = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        quantization_config=CompressedTensorsConfig(dequantize=True)).eval()
    return max(found, compare(reply, ids, log_probabilities(read, ids)))


def run(types, rows, headroom, folder, compare, tokens):
    """Compares every variant in every packing. Returns the titles of failures."""
    failed, compared = [], 0
    for name in types:
        for number, variant in enumerate(rows[name].variants):
            source = Path(folder) / f"{name}-{number}"
            try:
                config = AutoConfig.for_model(name, **originals.keys_of(name, rows[name], variant))
            except StrictDataclassClassValidationError:
                print(f"{name} {number}: transformers does not have it")
                continue
            model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()
            originals.randomize(model, len(name))
            model.save_pretrained(source)
            ids = weights.tokens(tokens, {**rows[name].base, **variant}["vocab_size"])
            for packing in PACKINGS:
                title = f"{name} {number} {packing}"
                try:
                    found = check(source, Path(folder) / "packed", packing, headroom, compare, ids)
                except (server.Failed, ValueError) as err:
                    found = (float("inf"), 0)
                    print(f"{title}: {err}")
                compared += 1
                print(f"{title}: largest difference {found[0]:.1e}", flush=True)
                if not found[0] <= rows[name].tolerance:
                    failed.append(title)
    if not compared:
        failed.append("transformers has none of these types: nothing was compared")
    return failed
