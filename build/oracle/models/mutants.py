"""Shows that the oracle finds faults: each mutant is Headroom with one fault in an architecture.

The fault is an edit of one file, which the go command applies while it builds (`go build
-overlay`), so no file of the working tree changes. `make oracle ARGS=--mutants` fails if a mutant
agrees with mlx-lm. A mutant that refuses all models shows nothing about the oracle, and fails too.
After a change of engine/models, a text here may have to follow.
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
    portable: bool = False  # the fault is in Go code that only a build without cgo runs
    packing: str = "float32"  # of weights.py


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
           "Normalize: true, Scale: l.ExpertScale}", "Normalize: true}"),
    Mutant("q_proj has no bias", "qwen2", "engine/nn/nn.go", "c.AddBias(q, l.QProj.Bias)", ""),
    Mutant("queries have the factor of the next step", "ministral3", "engine/models/ministral3.go",
           "math.Log(float64(1+i))", "math.Log(float64(2+i))"),
    Mutant("sliding layers rotate with the scaled frequencies of full attention", "olmo3",
           "engine/models/olmo3.go", "ropes[c.LayerTypes[i]]", "ropes[fullAttention]"),
    Mutant("the sinks of attention are forgotten", "gpt_oss", "engine/models/layer.go",
           "a.Sinks = s.Vector(", "_ = s.Vector("),
    Mutant("the gate is computed by up_proj", "phi3", "engine/models/phi3.go",
           "gateUp[0]}", "gateUp[1]}"),
    Mutant("the base of the rotary frequencies is twice as large", "mistral",
           "engine/checkpoint/rope.go", "math.Pow(r.Theta, -float64(2*i)",
           "math.Pow(2*r.Theta, -float64(2*i)"),
    Mutant("the weights of the chosen experts are always normalized", "qwen3_moe",
           "engine/models/mixture.go", "Normalize: c.NormTopKProb}", "Normalize: true}"),
    Mutant("query and key heads are not normalized", "qwen3", "engine/nn/nn.go",
           "return c.NormRope(x, norm, r, ", "return c.NormRope(x, kernels.Tensor{}, r, "),
    Mutant("the multiplier of attention's output is forgotten", "granite",
           "engine/models/layer.go", "l.multiply(c, x)\n\tx = l.mlp", "x = l.mlp"),
    Mutant("the gate is after the norm", "granitemoehybrid", "engine/nn/nn.go",
           "l.normalize(c, c.SiLUMul(gate, y))", "c.SiLUMul(gate, l.normalize(c, y))"),
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
    Mutant("the bias of the convolution is forgotten", "lfm2", "engine/nn/nn.go",
           "\tc.AddBias(y, l.ConvBias)\n", ""),
    Mutant("the key of a latent is rotated twice", "glm4_moe_lite", "engine/nn/latent.go",
           "\tc.RopeTo(key.Columns(rank, width), latent.Columns(rank, width), l.Rope, b.Spans, "
           "1)\n",
           "\tonce := c.Temp(kernels.F32, latent.Rows, l.RopeDim)\n"
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
    Mutant("o_proj has no bias", "seed_oss", "engine/nn/nn.go",
           "return l.OProj.Forward(c, out)", "return c.Linear(out, l.OProj.Weight)"),
    Mutant("the layers without rotation are one too early", "smollm3",
           "engine/models/smollm3.go", "(i+1)%c.NoRopeLayerInterval",
           "(i+2)%c.NoRopeLayerInterval"),
    # Parts of one family each.
    Mutant("attention and MLP follow each other", "cohere", "engine/models/layernorm.go",
           "return c.Add(y, l.mlp.Forward(c, x))",
           "return c.Add(y, l.mlp.Forward(c, l.beforeMixer.forward(c, c.Add(h, y))))"),
    Mutant("the logits have no scale", "cohere", "engine/models/cohere.go",
           "scale(m.finalNorm.weight, float32(c.LogitScale))", "scale(m.finalNorm.weight, 1)"),
    Mutant("pairs of a head are apart", "cohere", "engine/models/cohere.go",
           "c.RopeTraditional, c.normBias = true,", "c.RopeTraditional, c.normBias = false,"),
    Mutant("layers with full attention rotate", "cohere2", "engine/models/cohere.go",
           "return c.LayerTypes[i] == slidingAttention }", "return true }"),
    Mutant("norms have no bias", "stablelm", "engine/models/layernorm.go",
           "n.bias = s.Vector(", "_ = s.Vector("),
    Mutant("a parallel layer has the residual of the MLP twice", "stablelm",
           "engine/models/layernorm.go", "return c.Add(y, l.mlp.Forward(c, x))",
           "c.AddTo(y, y, l.mlp.Forward(c, x))\n\t\treturn c.Add(y, x)"),
    Mutant("up_proj has no bias", "starcoder2", "engine/nn/plain.go",
           "x = l.UpProj.Forward(c, x)", "x = c.Linear(x, l.UpProj.Weight)"),
    Mutant("the weights of norms are not zero-centred", "nemotron", "engine/models/nemotron.go",
           "c.normBias, c.normOffset = true, 1", "c.normBias, c.normOffset = true, 0"),
    Mutant("the squared ReLU is squared twice", "nemotron", "engine/nn/plain.go",
           "return l.DownProj.Forward(c, c.SquareReLU(x))",
           "return l.DownProj.Forward(c, c.SquareReLU(c.SquareReLU(x)))"),
    Mutant("the weights of experts are not of the chosen alone", "granitemoe",
           "engine/models/granitemoe.go", "Normalize: c.NormTopKProb}", "Normalize: false}"),
    Mutant("the multiplier of the scores is forgotten", "granitemoe",
           "engine/models/granitemoe.go", "o.scale = float32(c.AttentionMultiplier)", ""),
    Mutant("the multiplier of the embedding is forgotten", "granitemoe",
           "engine/models/granite.go", "m.embedScale = float32(c.EmbeddingMultiplier)", ""),
    Mutant("the logits are not divided", "granitemoe", "engine/models/granite.go",
           "scale(m.norm, float32(1/c.LogitsScaling))", "scale(m.norm, 1)"),
    Mutant("queries and keys are normalized before they are rotated", "hunyuan_v1_dense",
           "engine/models/hunyuan_v1_dense.go",
           "o.headNorm, o.normRotated = c.UseQKNorm, c.UseQKNorm",
           "o.headNorm, o.normRotated = c.UseQKNorm, false"),
    Mutant("alpha multiplies the base itself", "hunyuan_v1_dense",
           "engine/models/hunyuan_v1_dense.go", "math.Pow(a, d/(d-2))", "math.Pow(a, d/d)"),
    Mutant("layers with full attention rotate", "exaone4", "engine/models/exaone4.go",
           "c.LayerTypes[i] == fullAttention", "c.LayerTypes[i] == \"none\""),
    Mutant("norms are before each part", "exaone4", "engine/models/olmo3.go",
           "afterMixer: s.Vector(", "beforeMixer: s.Vector("),
    Mutant("the norm of the MLP is before it", "olmo2", "engine/models/olmo3.go",
           "afterMLP:   s.Vector(", "beforeMLP:   s.Vector("),
    Mutant("queries and keys are normalized by head", "olmo2", "engine/nn/nn.go",
           "x = c.RMSNorm(x.Reshape(rows, cols), norm, l.Eps).Reshape(rows*heads, l.HeadDim)",
           "x = c.RMSNorm(x, norm.Columns(0, l.HeadDim), l.Eps)"),
    Mutant("queries and keys are normalized by head", "minimax_m2", "engine/nn/nn.go",
           "x = c.RMSNorm(x.Reshape(rows, cols), norm, l.Eps).Reshape(rows*heads, l.HeadDim)",
           "x = c.RMSNorm(x, norm.Columns(0, l.HeadDim), l.Eps)"),
    Mutant("the whole head is rotated", "minimax_m2", "engine/models/minimax_m2.go",
           "float64(c.RotaryDim) / float64(c.HeadDim)", "1"),
    Mutant("queries and keys are not normalized", "olmoe", "engine/nn/nn.go",
           "if norm.Cols == cols && heads > 1 {",
           "if norm.Cols == cols && heads > 1 {\n\t\tnorm = kernels.Tensor{}\n\t}\n"
           "\tif norm.Cols == cols && heads > 1 {"),
    Mutant("the weights of the chosen experts are always normalized", "olmoe",
           "engine/models/mixture.go", "Normalize: c.NormTopKProb}", "Normalize: true}"),
    Mutant("pairs of a head are apart", "ernie4_5", "engine/models/ernie4_5.go",
           "c.MLPBias, c.RopeTraditional = c.UseBias, true",
           "c.MLPBias, c.RopeTraditional = c.UseBias, false"),
    Mutant("the weights of experts are not of the chosen alone", "ernie4_5_moe",
           "engine/models/ernie4_5.go", "TopK: c.TopK, Normalize: true",
           "TopK: c.TopK, Normalize: false"),
    Mutant("the gate of the shared expert is always open", "qwen2_moe", "engine/nn/nn.go",
           "return c.Combine(expert, weights, shared, sharedGate)",
           "sharedGate = kernels.Tensor{}\n"
           "\treturn c.Combine(expert, weights, shared, sharedGate)"),
    Mutant("the weights of experts are not of the chosen alone", "mixtral",
           "engine/models/mixtral.go", "131072, true", "131072, false"),
    Mutant("pairs of a head are apart", "glm", "engine/models/glm.go",
           "c.RopeTraditional = true\n\tsandwich", "sandwich"),
    Mutant("the whole head is rotated", "glm4", "engine/checkpoint/rope.go",
           "rotary := int(float64(headDim) * r.PartialFactor)",
           "rotary := headDim"),
    Mutant("no norm is after the MLP", "glm4", "engine/models/glm.go",
           "l.norms.afterMLP = s.Vector(", "_ = s.Vector("),
    Mutant("the whole head is rotated", "glm4_moe", "engine/checkpoint/rope.go",
           "rotary := int(float64(headDim) * r.PartialFactor)",
           "rotary := headDim"),
    Mutant("pairs of a head are apart", "helium", "engine/models/helium.go",
           "c.RopeTraditional = true\n\treturn", "return"),
    Mutant("o_proj has no bias", "internlm3", "engine/nn/nn.go",
           "return l.OProj.Forward(c, out)", "return c.Linear(out, l.OProj.Weight)"),
    Mutant("the residual multiplier does not depend on the number of layers", "minicpm",
           "engine/models/minicpm.go", "c.ScaleDepth / math.Sqrt(float64(c.NumHiddenLayers))",
           "c.ScaleDepth / math.Sqrt(float64(1))"),
    Mutant("v_proj has no bias", "mimo", "engine/nn/nn.go",
           "c.AddBias(v, l.VProj.Bias)\n\treturn", "return"),
    Mutant("layers with full attention rotate", "afmoe", "engine/models/afmoe.go",
           "c.LayerTypes[i] == slidingAttention {", "c.LayerTypes[i] != \"none\" {"),
    Mutant("the embedding is not scaled", "afmoe", "engine/models/afmoe.go", "if c.MuP {",
           "if false {"),
    Mutant("the router has no bias", "afmoe", "engine/models/afmoe.go",
           'Bias: s.Vector("expert_bias", c.NumExperts, 0),',
           'Bias: scale(s.Vector("expert_bias", c.NumExperts, 0), 0),'),
    Mutant("the weights of experts are of the chosen alone", "deepseek",
           "engine/models/deepseek.go", "c.NormTopKProb, c.outputBias = false, true",
           "c.NormTopKProb, c.outputBias = true, true"),
    Mutant("o_proj has no bias", "deepseek", "engine/nn/nn.go",
           "return l.OProj.Forward(c, out)", "return c.Linear(out, l.OProj.Weight)"),
    Mutant("the factor of the experts' weights is forgotten", "dots1",
           "engine/models/mixture.go", "c.RoutedScalingFactor != 1", "false"),
    Mutant("sliding layers rotate with the frequencies of full attention", "mellum",
           "engine/models/mellum.go", "ropes[c.LayerTypes[i]]", "ropes[fullAttention]"),
    Mutant("the factor of the experts' weights is forgotten", "solar_open",
           "engine/models/mixture.go", "c.RoutedScalingFactor != 1", "false"),
    Mutant("queries have no factor", "muse_glimmer", "engine/models/muse_glimmer.go",
           "float32(c.QKScaleFactor)", "1"),
    Mutant("attention has no gate", "muse_glimmer", "engine/nn/nn.go",
           "if !gate.IsNone() {", "if l.OutputGate {"),
    Mutant("the embedding is not normalized", "muse_glimmer", "engine/models/muse_glimmer.go",
           "m.embedNorm = ones(", "_ = ones("),
    Mutant("layers with full attention rotate", "muse_glimmer", "engine/models/muse_glimmer.go",
           "c.LayerRopeTheta[i] != 0", "true"),
    Mutant("the norms after a part have the epsilon of the others", "muse_glimmer",
           "engine/models/muse_glimmer.go", "afterEps: c.PostNormEps, ", ""),
    Mutant("the logits have no multiplier", "muse_glimmer", "engine/models/muse_glimmer.go",
           "scale(m.norm, float32(c.OutputMultiplier))", "scale(m.norm, 1)"),
    Mutant("the final norm is zero-centred", "muse_glimmer", "engine/models/muse_glimmer.go",
           "from := textWeights(w)", "from := textWeights(w)\n\tfrom.normOffset = 1"),
    Mutant("up_proj has no bias", "telechat3", "engine/nn/nn.go",
           "c.AddBias(up, l.UpProj.Bias)", ""),
    Mutant("gate_proj and up_proj are swapped", "xverse", "engine/nn/nn.go",
           "c.GateUp(x, l.GateProj.Weight, l.UpProj.Weight)",
           "c.GateUp(x, l.UpProj.Weight, l.GateProj.Weight)"),
    Mutant("the base of the rotary frequencies is twice as large", "iquestcoder",
           "engine/checkpoint/rope.go", "math.Pow(r.Theta, -float64(2*i)",
           "math.Pow(2*r.Theta, -float64(2*i)"),
    Mutant("experts of all groups are chosen", "kimi_k2", "engine/models/mixture.go",
           "r.Groups, r.TopGroups = c.NGroup, c.TopKGroup", ""),
    Mutant("the embedding is not scaled", "gemma", "engine/models/gemma.go",
           "math.Sqrt(float64(c.HiddenSize))", "math.Sqrt(1)"),
    Mutant("the MLP sees attention alone, without Mamba-2", "falcon_h1",
           "engine/models/falcon_h1.go",
           "c.AddTo(y, y, multiplied(c, l.attention.Forward(c, b, x, memory), "
           "l.factors.attention))",
           "y = multiplied(c, l.attention.Forward(c, b, x, memory), l.factors.attention)"),
    Mutant("the multiplier of the logits is forgotten", "falcon_h1",
           "engine/models/falcon_h1.go", "scale(m.norm, float32(c.LMHeadMultiplier))",
           "scale(m.norm, 1)"),
    Mutant("Mamba-2 normalizes all heads together", "nemotron_h", "engine/models/nemotron_h.go",
           "if c.groups > 1 {", "if c.groups > 99 {"),
    Mutant("the shared expert is forgotten beside latents", "nemotron_h", "engine/nn/plain.go",
           "return c.Add(y, shared)", "return y"),
    Mutant("the shared expert is forgotten", "glm4_moe", "engine/nn/nn.go",
           "return c.Combine(expert, weights, shared, sharedGate)",
           "shared = kernels.Tensor{}\n"
           "\treturn c.Combine(expert, weights, shared, sharedGate)"),
    # Faults in kernels. In builds without cgo, Go computes what C does elsewhere.
    *(Mutant("the correction bias is in the weights of experts", family, "kernels/moe/route.go",
             "ids[j], weights[j] = int32(best), p[best]\n\t\t\tchosen += p[best]",
             "ids[j], weights[j] = int32(best), scores[best]\n\t\t\tchosen += scores[best]",
             portable=True)
      for family in ("deepseek_v3", "glm4_moe", "lfm2_moe", "minimax_m2", "nemotron_h")),
    Mutant("a group's score is the sum of its two best experts", "deepseek_v2",
           "kernels/moe/route.go", "if o.Sigmoid {\n\t\treturn first + second",
           "if true {\n\t\treturn first + second", portable=True),
    *(Mutant("a state decays after its update", family, "kernels/recurrent/ssm.go",
             "row[j] = F(decay)*row[j] + F(dt)*F(x[i])*F(b[j])",
             "row[j] = F(decay) * (row[j] + F(dt)*F(x[i])*F(b[j]))", portable=True)
      for family in ("nemotron_h", "granitemoehybrid", "falcon_h1")),
    Mutant("a state is read before its update", "nemotron_h", "kernels/recurrent/ssm.go",
           "row[j] = F(decay)*row[j] + F(dt)*F(x[i])*F(b[j])\n"
           "\t\t\t\tsum += row[j] * F(c[j])",
           "sum += row[j] * F(c[j])\n"
           "\t\t\t\trow[j] = F(decay)*row[j] + F(dt)*F(x[i])*F(b[j])", portable=True),
    Mutant("dt has no bias", "nemotron_h", "kernels/recurrent/ssm.go",
           "x := float64(dt) + float64(o.DtBias.Row(0)[h])", "x := float64(dt)", portable=True),
    Mutant("the scales of FP8 blocks are transposed", "qwen3", "engine/checkpoint/fp8.go",
           "scale(row/block[0]*cols + i)", "scale(i*rows + row/block[0])", packing="fp8"),
]


def build(mutant, folder):
    """Builds Headroom with a fault, or without one for a mutant without text, and returns the
    program."""
    program = Path(folder) / "headroom-mutant"
    command = ["go", "build", "-ldflags=-s -w", "-o", str(program)]
    if mutant.text:
        source = ROOT / mutant.file
        before = source.read_text()
        if before.count(mutant.text) != 1:
            raise ValueError(f"{mutant.file} has {before.count(mutant.text)} times "
                             f"{mutant.text!r}, expected once: update "
                             "build/oracle/models/mutants.py")
        edited = Path(folder) / source.name
        edited.write_text(before.replace(mutant.text, mutant.becomes))
        overlay = Path(folder) / "overlay.json"
        overlay.write_text(json.dumps({"Replace": {mutant.file: str(edited)}}))
        command += ["-overlay", str(overlay)]
    env = {**os.environ, "CGO_ENABLED": "0"} if mutant.portable else os.environ
    subprocess.run([*command, "./app/cmd/headroom"], cwd=ROOT, check=True, env=env)
    return program


def run(types, folder, compare):
    """Builds each mutant of the given types and calls compare(type, program, packing), which
    returns "agrees", "differs" or, if the program computed nothing, "refuses". Returns the faults
    that were not found."""
    mutants = [m for m in MUTANTS if m.type in types]
    sound = [Mutant("", name, "", "", "", portable=True)
             for name in sorted({m.type for m in mutants if m.portable})]
    missed = []
    for m in sound + mutants:
        result = compare(m.type, build(m, folder), m.packing)
        if not m.text:
            if result != "agrees":
                missed.append(f"{m.type} without cgo {result}")
            continue
        print(f"{m.type:20} {'found ' if result == 'differs' else result.upper()} {m.fault}",
              flush=True)
        if result != "differs":
            missed.append(m.fault)
    return missed
