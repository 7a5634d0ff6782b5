"""Writes random blocks that draft tokens (MTP) and what they draft, for `make test`.

    make oracle ARGS="--blocks"        all families of BLOCKS, into engine/models/testdata/mtp/TYPE

mlx-lm has no such blocks. Its classes compute the model and the block's layer; what is between them
is written here, from the formulas of vLLM and SGLang (engine/models/blocks.go names the files):

    x = project(concat(norm(embed(token)), norm(hidden state before it)))
    out = norm(layer(x)),  logits = head(out),  and out is the next hidden state

The model is the one of engine/models/testdata/tiny, so only the block's weights are stored, and a
few logits of three drafts after each prompt. Each fault of FAULTS must change some of these by
0.1 or more, else the numbers would not show it. assistants.py has the assistant of Gemma 4.
"""

import importlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache
from mlx_lm.utils import load_model

import assistants
import golden
import weights

MTP = golden.TINY.parent / "mtp"
LENGTHS = (2, 5, 40, 150)
STEPS = 3
EVERY = 16  # of how many logits one is stored
GROUP = 64
FAULTS = ("the halves of the projection's input are swapped", "the hidden state before the norm",
          "no norm before the head")


@dataclass
class Form:
    layer: object  # a function from the classes and the arguments to the layer's modules, by name
    project: str = "eh_proj"
    embedding: str = "enorm"
    hidden: str = "hnorm"
    norm: str = "shared_head.norm"
    prefix: str = "model.layers.{layers}."
    hidden_first: bool = False
    tiny: str = ""  # the folder of the model, if it is another type's


def numbered(name):
    return lambda classes, args: {"": getattr(classes, name)(args, args.num_hidden_layers)}


def two_parts(classes, args):
    return {"layers.0.": classes.NemotronHBlock(args, "*"),
            "layers.1.": classes.NemotronHBlock(args, "E")}


BLOCKS = {
    "deepseek_v3": Form(numbered("DeepseekV3DecoderLayer")),
    "ernie4_5_moe": Form(
        lambda classes, args: {"mtp_block.0.": classes.Ernie4_5_DecoderLayer(
            args, args.num_hidden_layers)},
        "mtp_linear_proj.0", "mtp_emb_norm.0", "mtp_hidden_norm.0", "", "model."),
    "glm4_moe": Form(numbered("DecoderLayer")),
    "glm4_moe_lite": Form(numbered("Glm4MoeLiteDecoderLayer")),
    "mimo": Form(lambda classes, args: {"": classes.TransformerBlock(args)},
                 "input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm",
                 "model.mtp_layers.0.", hidden_first=True, tiny="qwen2"),
    "nemotron_h": Form(two_parts, "layers.0.eh_proj", "layers.0.enorm", "layers.0.hnorm",
                       "layers.1.final_layernorm", "mtp."),
}


class Block(nn.Module):
    def __init__(self, form, classes, args):
        super().__init__()
        size, eps = args.hidden_size, getattr(args, "rms_norm_eps", None)
        eps = eps or args.layer_norm_epsilon
        self.form = form
        self.project = nn.Linear(2 * size, size, bias=False)
        self.embedding, self.hidden = nn.RMSNorm(size, eps), nn.RMSNorm(size, eps)
        self.norm = nn.RMSNorm(size, eps) if form.norm else None
        parts = form.layer(classes, args)
        self.names, self.parts = list(parts), list(parts.values())

    def __call__(self, embedded, before, cache, fault=""):
        halves = [self.embedding(embedded), self.hidden(before)]
        if self.form.hidden_first != (fault == FAULTS[0]):
            halves.reverse()
        x = self.project(mx.concatenate(halves, axis=-1))
        mask = create_attention_mask(x, cache, return_array=True)
        for part in self.parts:
            x = part(x, mask, cache)
        return x if self.norm is None or fault == FAULTS[2] else self.norm(x)

    def tensors(self):
        """The weights under the names of checkpoints, without the prefix."""
        f, out = self.form, {}
        modules = {"project": f.project, "embedding": f.embedding, "hidden": f.hidden,
                   "norm": f.norm}
        modules.update({f"parts.{i}": name[:-1] for i, name in enumerate(self.names)})
        for path, x in tree_flatten(self.parameters()):
            module = next(m for m in modules if path.startswith(m + "."))
            out[f"{modules[module]}{path.removeprefix(module)}".lstrip(".")] = x
        return out


def write():
    assistants.write()
    for name, form in BLOCKS.items():
        folder = golden.TINY / (form.tiny or name)
        with tempfile.TemporaryDirectory() as temp:
            for file in folder.iterdir():
                (Path(temp) / file.name).symlink_to(file)
            config = {**json.loads((folder / "config.json").read_text()), "model_type": name}
            (Path(temp) / "config.json").unlink()
            (Path(temp) / "config.json").write_text(json.dumps(config))
            model, _ = load_model(Path(temp), lazy=False)
        model.set_dtype(mx.float32)
        classes = importlib.import_module(type(model).__module__)
        block = Block(form, classes, model.args)
        block.load_weights(list(weights.draw(block, name).items()))
        block.set_dtype(mx.bfloat16)
        nn.quantize(block, GROUP, 4, class_predicate=lambda _, m: hasattr(m, "to_quantized")
                    and m.weight.shape[-1] % GROUP == 0)
        prefix = form.prefix.format(layers=config["num_hidden_layers"])
        out = MTP / name
        out.mkdir(parents=True, exist_ok=True)
        mx.save_safetensors(str(out / "model.safetensors"),
                            {prefix + k: v for k, v in block.tensors().items()},
                            metadata={"format": "mlx"})
        block.set_dtype(mx.float32)
        drafts = [draft(model, block, weights.tokens(n, 320, seed=n)) for n in LENGTHS]
        differ = [max(difference(drafts[i], draft(model, block, weights.tokens(n, 320, seed=n),
                                                  fault)) for i, n in enumerate(LENGTHS))
                  for fault in FAULTS if form.norm or fault != FAULTS[2]]
        print(name, (out / "model.safetensors").stat().st_size, "bytes, faults change",
              [round(d, 2) for d in differ])
        if min(differ) < 0.1:
            raise SystemExit(f"oracle: the numbers of {name} do not show every fault")
        (out / "expected.json").write_text(json.dumps(drafts, separators=(",", ":")) + "\n")


def draft(model, block, ids, fault=""):
    """What the block drafts after ids, greedily, and some of the logits of each draft. Position 0
    has a hidden state of zero, as in Headroom."""
    inner = model.backbone if hasattr(model, "backbone") else model.model
    embed = inner.embeddings if hasattr(inner, "embeddings") else inner.embed_tokens
    head = embed.as_linear if not hasattr(model, "lm_head") else model.lm_head
    norm = "norm_f" if hasattr(inner, "norm_f") else "norm"
    final = getattr(inner, norm)
    if fault == FAULTS[1]:
        setattr(inner, norm, nn.Identity())
    hidden = inner(mx.array([ids]))
    setattr(inner, norm, final)
    before = mx.concatenate([mx.zeros_like(hidden[:, :1]), hidden[:, :-1]], axis=1)
    cache, tokens, steps = KVCache(), mx.array([ids]), []
    for _ in range(STEPS):
        out = block(embed(tokens), before, cache, fault)[:, -1:]
        row = head(out)[0, -1].astype(mx.float32)
        second, first = mx.sort(row)[-2:].tolist()
        best = mx.argmax(row).item()
        steps.append({"token": best, "gap": round(first - second, 4),
                      "logits": [round(x, 4) for x in row[::EVERY].tolist()]})
        tokens, before = mx.array([[best]]), out
    return {"ids": ids, "steps": steps}


def difference(want, got):
    """The largest difference of a logit at the first draft."""
    return max(abs(a - b) for a, b in zip(want["steps"][0]["logits"],
                                           got["steps"][0]["logits"]))
