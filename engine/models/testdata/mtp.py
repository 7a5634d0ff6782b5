"""Writes mtp/demo.json: what the demo model's block drafts, by mlx-vlm in float32 with the dequantized
weights. At some positions of the demo cases' greedy answers it drafts three tokens, one after another.

Writes mtp/folder.json too: the folder that mlx-vlm makes of the block alone, as people publish it. It has
the config.json without text_config, and the shape and SHA-256 of each tensor.

    pip install 'mlx[cpu]' mlx-vlm
    python mtp.py DEMO_MODEL_FOLDER
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import mlx.core as mx
from mlx_vlm.models.qwen3_5_moe.config import TextConfig
from mlx_vlm.models.qwen3_5_moe.language import LanguageModel
from mlx_vlm.speculative.drafters.qwen3_5_mtp.config import Qwen3_5MTPConfig
from mlx_vlm.speculative.drafters.qwen3_5_mtp.qwen3_5_mtp import Qwen3_5MTPDraftModel
from mlx_vlm.speculative.drafters.qwen3_5_mtp.split import split_qwen3_5_mtp

HERE = pathlib.Path(__file__).parent
STEPS = 3


def dequantized(folder, quantization):
    tensors, out = mx.load(str(folder / "model.safetensors")), {}
    for name, tensor in tensors.items():
        module = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        if module + ".scales" in tensors:
            p = quantization.get(module, quantization)
            # With bfloat16 scales the result would be rounded to bfloat16.
            scales, biases = (tensors[module + end].astype(mx.float32) for end in (".scales", ".biases"))
            tensor = mx.dequantize(tensor, scales, biases, group_size=p["group_size"], bits=p["bits"])
        out[name] = tensor.astype(mx.float32)
    return out


def split(folder):
    """Returns what is in the folder that mlx-vlm makes of the block."""
    root = "language_model."
    with tempfile.TemporaryDirectory() as temp:
        source, output = pathlib.Path(temp, "source"), pathlib.Path(temp, "output")
        source.mkdir()
        config = json.loads((folder / "config.json").read_text())
        # mlx-vlm reads the names of originals.
        config["quantization"] = {k.removeprefix(root): v for k, v in config["quantization"].items()}
        (source / "config.json").write_text(json.dumps(config))
        tensors = {k.removeprefix(root): v for k, v in mx.load(str(folder / "model.safetensors")).items()}
        mx.save_safetensors(str(source / "model.safetensors"), tensors, metadata={"format": "mlx"})
        split_qwen3_5_mtp(str(source), str(output))
        config = json.loads((output / "config.json").read_text())
        del config["text_config"], config["quantization_config"]
        config["quantization"] = {k: v for k, v in config["quantization"].items() if "model.layers" not in k}
        data = (output / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    out = {}
    for name, x in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = x["data_offsets"]
            out[name] = [x["dtype"], x["shape"], hashlib.sha256(data[start + begin : start + end]).hexdigest()]
    return {"config": config, "tensors": dict(sorted(out.items()))}


def main(folder):
    mx.set_default_device(mx.cpu)
    config = json.loads((folder / "config.json").read_text())
    text = config["text_config"]
    weights = dequantized(folder, config["quantization"])
    model = LanguageModel(TextConfig.from_dict(text), None)
    block = Qwen3_5MTPDraftModel(Qwen3_5MTPConfig.from_dict({"text_config": text}))
    root, mtp = "language_model.", "language_model.mtp."
    model.load_weights([(k.removeprefix(root), v) for k, v in weights.items()
                        if not k.startswith(mtp)], strict=True)
    block.load_weights([(k.removeprefix(mtp), v) for k, v in weights.items() if k.startswith(mtp)],
                       strict=True)
    embed, head = model.model.embed_tokens, model.lm_head
    cases = json.loads((HERE / "demo" / "demo_cases.json").read_text())
    out = []
    for number in (0, 2, 5, 12, 18, 23):
        prompt, answer = cases[number]["prompt_ids"], cases[number]["greedy_ids"]
        ids = mx.array([prompt + answer])
        hidden = model.model(ids, cache=model.make_cache())
        # Headroom's block has an input at position 0, whose hidden state is zero.
        before = mx.concatenate([mx.zeros((1, 1, hidden.shape[2])), hidden[:, :-1]], 1)
        for at in range(len(prompt), len(prompt) + len(answer) - 1, 7):
            cache = block.make_cache()
            y = block._forward_hidden(embed(ids[:, : at + 1]), before[:, : at + 1], cache,
                                      mx.arange(at + 1)[None])[:, -1:]
            drafts = []
            for step in range(STEPS):
                logits = head(y)[0, -1]
                best = mx.argsort(-logits)[:2].tolist()
                drafts.append({"token": best[0], "logit": round(logits[best[0]].item(), 4),
                               "second": round(logits[best[1]].item(), 4)})
                y = block._forward_hidden(embed(mx.array([best[:1]])), y, cache,
                                          mx.array([[at + 1 + step]]))
            out.append({"case": number, "answered": at - len(prompt) + 1, "drafts": drafts})
    (HERE / "mtp").mkdir(exist_ok=True)
    (HERE / "mtp" / "demo.json").write_text(
        "[\n" + ",\n".join(json.dumps(x) for x in out) + "\n]\n")
    (HERE / "mtp" / "folder.json").write_text(json.dumps(split(folder), indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
