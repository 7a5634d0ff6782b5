"""Shows that the oracle finds faults: each mutant is Headroom with one fault in an architecture.

The fault is an edit of one file, which the go command applies while it builds (`go build
-overlay`), so no file of the working tree changes. `make oracle ARGS=--mutants` fails if a mutant
agrees with mlx-lm. After a change of engine/models, a text here may have to follow.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Mutant:
    fault: str
    type: str  # the row of table.py that must fail
    file: str
    text: str  # must be in the file once
    becomes: str


MUTANTS = [
    Mutant("the scores are divided by head_dim, not by its square root", "llama",
           "engine/models/layer.go", "1 / math.Sqrt(float64(c.HeadDim))",
           "1 / math.Pow(float64(c.HeadDim), 1)"),
    Mutant("the halves of q_proj, query and gate, are swapped", "qwen3_5_text",
           "engine/nn/nn.go", "gate = q.Columns(d, 2*d)\n\t\tq = q.Columns(0, d)",
           "gate = q.Columns(0, d)\n\t\tq = q.Columns(d, 2*d)"),
    Mutant("the epsilon of q and k is added to the mean of the squares, not to their sum",
           "qwen3_5_text", "kernels/recurrent/gated_delta.go", "const l2Eps = 1e-6",
           "const l2Eps = 32 * 1e-6"),
    Mutant("the rows of queries and keys are swapped in in_proj_qkvz", "qwen3_next",
           "engine/models/qwen3_next.go", "q, k := part(head, 0, d.Dk), part(head, d.Dk, d.Dk)",
           "k, q := part(head, 0, d.Dk), part(head, d.Dk, d.Dk)"),
    Mutant("the sliding window has one token more", "gemma3_text", "engine/models/layer.go",
           "spec.Window = c.SlidingWindow", "spec.Window = c.SlidingWindow + 1"),
    Mutant("sliding layers rotate with the frequencies of full attention", "gemma3_text",
           "engine/models/gemma3.go", "return ropes[c.LayerTypes[i]] }",
           "return ropes[fullAttention] }"),
    Mutant("norm weights are not zero-centred", "gemma3", "engine/models/gemma2.go",
           "gemmaNormOffset = 1 ", "gemmaNormOffset = 0 "),
    Mutant("the scores of attention have no cap", "gemma2", "engine/models/gemma2.go",
           "cap: softcap(c.AttnLogitSoftcap)", "cap: 0"),
    Mutant("the logits have no cap", "gemma2", "engine/models/gemma2.go",
           "m.logitCap = softcap(c.FinalLogitSoftcap)", "m.logitCap = 0"),
    Mutant("layers without keys attend to the first layer of their kind", "gemma4_text",
           "engine/models/gemma4.go", "if i < first {", "if _, ok := last[kind]; !ok {"),
    Mutant("the layer's scalar multiplies only what the layer adds last", "gemma4_text",
           "engine/models/gemma4.go", "c.MulTo(h, h, l.scalar)", ""),
    Mutant("the pairs of the proportional rope are formed over the rotated part", "gemma4_text",
           "engine/checkpoint/rope.go", "wholeHead: true", "wholeHead: false"),
    Mutant("values are not normalized", "gemma4_text", "engine/nn/nn.go",
           "!v.IsNone() && !l.VNorm.IsNone()", "!v.IsNone() && l.VNorm.IsNone()"),
    Mutant("experts have no factors of their own", "gemma4_text", "engine/nn/nn.go",
           "c.Route(logits, l.TopK, true, l.ExpertScale)",
           "c.Route(logits, l.TopK, true, kernels.Tensor{})"),
    Mutant("biases of attention are forgotten", "qwen2", "engine/models/qwen2.go",
           "qkvBias: true", "qkvBias: false"),
    Mutant("queries have the factor of the next step", "ministral3", "engine/models/ministral3.go",
           "math.Log(float64(1+i))", "math.Log(float64(2+i))"),
    Mutant("sliding layers rotate with the scaled frequencies of full attention", "olmo3",
           "engine/models/olmo3.go", "ropes[c.LayerTypes[i]]", "ropes[fullAttention]"),
    Mutant("the sinks of attention are forgotten", "gpt_oss", "engine/models/gpt_oss.go",
           "sinks: true", "sinks: false"),
    Mutant("the gate is computed by up_proj", "phi3", "engine/models/phi3.go",
           "gateUp[0]}", "gateUp[1]}"),
    Mutant("the base of the rotary frequencies is twice as large", "mistral",
           "engine/checkpoint/rope.go", "math.Pow(r.Theta, -float64(2*i)",
           "math.Pow(2*r.Theta, -float64(2*i)"),
    Mutant("the weights of the chosen experts are always normalized", "qwen3_moe",
           "engine/models/mixture.go", "NormTopKProb: c.NormTopKProb", "NormTopKProb: true"),
    Mutant("query and key heads are not normalized", "qwen3", "engine/models/layer.go",
           "case o.headNorm:", "case o.headNorm && c.HiddenSize == 0:"),
    Mutant("the multiplier of attention's output is forgotten", "granite",
           "engine/models/layer.go", "l.multiply(c, x)\n\tx = l.mlp", "x = l.mlp"),
    Mutant("the gate is after the norm", "granitemoehybrid", "engine/nn/nn.go",
           "c.RMSNorm(c.SiLUMul(gate, y), l.Norm, l.Eps)",
           "c.SiLUMul(gate, c.RMSNorm(y, l.Norm, l.Eps))"),
    Mutant("dt has no upper limit", "granitemoehybrid", "engine/ops/ops.go",
           "DtMin: s.DtMin, DtMax: s.DtMax", "DtMin: s.DtMin, DtMax: math.MaxFloat32"),
    Mutant("dt has no lower limit", "granitemoehybrid", "engine/ops/ops.go",
           "DtMin: s.DtMin, DtMax: s.DtMax", "DtMax: s.DtMax"),
    Mutant("the convolution of Mamba-2 has no bias", "granitemoehybrid", "engine/ops/ops.go",
           "Weight: weight, Bias: bias, State: convState", "Weight: weight, State: convState"),
    Mutant("the weights of experts are not of the chosen alone", "granitemoehybrid",
           "engine/models/granitemoehybrid.go", "c.IntermediateSize, true",
           "c.IntermediateSize, false"),
    Mutant("layers without Mamba-2 do not rotate", "granitemoehybrid",
           "engine/models/granitemoehybrid.go", 'PositionEmbeddingType == "rope"',
           'PositionEmbeddingType == "turns"'),
    Mutant("the convolution has SiLU", "lfm2", "engine/ops/ops.go", "Linear: true})",
           "Linear: false})"),
    Mutant("the parts of in_proj are in another order", "lfm2", "engine/nn/nn.go",
           "c.MulTo(y, y, parts.Columns(n, 2*n))", "c.MulTo(y, y, parts.Columns(0, n))"),
    Mutant("the size of the MLP is not adjusted", "lfm2", "engine/models/lfm2.go",
           "2 * c.IntermediateSize / 3", "c.IntermediateSize"),
    Mutant("the bias of the convolution is forgotten", "lfm2", "engine/nn/nn.go",
           "\tc.AddBias(y, l.ConvBias)\n", ""),
    Mutant("the key of a latent is rotated twice", "glm4_moe_lite", "engine/nn/latent.go",
           "\tc.RopeTo(key.Columns(rank, width), latent.Columns(rank, width), l.Rope, b.Spans, "
           "1)\n",
           "\tonce := c.Temp(kernels.F32, m, l.RopeDim)\n"
           "\tc.RopeTo(once, latent.Columns(rank, width), l.Rope, b.Spans, 1)\n"
           "\tc.RopeTo(key.Columns(rank, width), once, l.Rope, b.Spans, 1)\n"),
    Mutant("pairs of a latent's key are apart", "glm4_moe_lite", "engine/models/deepseek_v3.go",
           "c.RopeInterleave == nil || *c.RopeInterleave", "false"),
    Mutant("the norms inside attention have the epsilon of the others", "deepseek_v3",
           "engine/models/deepseek_v3.go", "if c.normEps == 0 {", "if true {"),
    Mutant("YaRN does not scale the scores", "deepseek_v3", "engine/models/deepseek_v3.go",
           "r.Scores() / math.Sqrt", "1 / math.Sqrt"),
    Mutant("experts of all groups are chosen", "deepseek_v3", "engine/models/mixture.go",
           "r.Groups, r.TopGroups = c.NGroup, c.TopKGroup", ""),
    Mutant("the correction bias is forgotten", "glm4_moe", "kernels/moe/native_cgo.go",
           "bias: floats(o.Bias), scale", "bias: nil, scale"),
    Mutant("the router has a softmax", "lfm2_moe", "engine/models/lfm2.go",
           "m.Sigmoid, m.Epsilon = true, lfm2RouterEps", "m.Epsilon = lfm2RouterEps"),
    Mutant("the router has no bias", "lfm2_moe", "engine/models/lfm2.go",
           "m.Bias = s.Vector(", "_ = s.Vector("),
    Mutant("the factor of the experts' weights is forgotten", "lfm2_moe",
           "engine/models/lfm2.go", "c.RoutedScalingFactor != 1", "false"),
    Mutant("o_proj has no bias", "seed_oss", "engine/models/seed_oss.go",
           "outputBias: c.AttentionOutBias", "outputBias: false"),
    Mutant("the layers without rotation are one too early", "smollm3",
           "engine/models/smollm3.go", "(i+1)%c.NoRopeLayerInterval",
           "(i+2)%c.NoRopeLayerInterval"),
]


def build(mutant, folder):
    """Builds Headroom with a fault and returns the program."""
    source = ROOT / mutant.file
    before = source.read_text()
    if before.count(mutant.text) != 1:
        raise ValueError(f"{mutant.file} has {before.count(mutant.text)} times {mutant.text!r}, "
                         "expected once: update build/oracle/models/mutants.py")
    edited = Path(folder) / source.name
    edited.write_text(before.replace(mutant.text, mutant.becomes))
    overlay = Path(folder) / "overlay.json"
    overlay.write_text(json.dumps({"Replace": {mutant.file: str(edited)}}))
    program = Path(folder) / "headroom-mutant"
    subprocess.run(["go", "build", "-overlay", str(overlay), "-o", str(program),
                    "./app/cmd/headroom"], cwd=ROOT, check=True, env=os.environ)
    return program


def run(types, folder, compare):
    """Builds each mutant of the given types and calls compare(type, program), which returns whether
    they agree. Returns the faults that were not found."""
    missed = []
    for m in MUTANTS:
        if m.type not in types:
            continue
        found = not compare(m.type, build(m, folder))
        print(f"{m.type:20} {'found ' if found else 'MISSED'} {m.fault}", flush=True)
        if not found:
            missed.append(m.fault)
    return missed
