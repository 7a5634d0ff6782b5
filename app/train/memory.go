package train

// An estimate of the memory that a training needs, made from the headers of the model's weights.
// It has four parts:
//
//	weights      the model's tensors, as they are in the files
//	parameters   what is trained, with its gradient and the optimizer's moments
//	activations  what the backward pass needs of each trained layer, for the tokens of a batch
//	logits       those of a batch, their softmax and their gradient
//
// A gated delta layer keeps much more of a token than its inputs and outputs. mlx-lm trains it by a
// loop over the tokens (gated_delta_ops of mlx_lm/models/gated_delta.py; its kernel has no
// gradient), and the backward pass needs two states of every token: the decayed one for the
// gradients of keys and values, and the updated one for that of queries. Both are float32, on every
// device. A Mamba layer is computed in chunks of 256 tokens (ssm_attn of mlx_lm/models/ssm.py): it
// keeps float32 matrices of the pairs of tokens of a chunk for every head, and the chunks after the
// first take a state for every token, in one layer at a time. Experts need no term of their own:
// mlx sorts the tokens by expert, and gather_mm and its gradients take what a linear takes for the
// tokens times the experts of each.
//
// The factors are fitted to the peak that mlx reports; memory_test.go has the measured shapes.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"headroom/app/memory"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
)

// Shape is what the estimate needs to know of a model.
type Shape struct {
	Layers, Hidden, Heads, Vocab int
	PerToken                     int  // experts that a token uses
	Float32                      bool // activations are float32, not of 16 bits

	StateBytes int64 // of a gated delta or Mamba layer, for one sequence
	MambaHeads int64

	WeightBytes int64
	Quantized   bool
	layers      []layer
}

// layer has the sizes of one layer.
type layer struct {
	bytes      int64
	linears    []linear
	gatedDelta bool
	mamba      bool
	attention  bool // beside one of the two
}

// linear is a matrix that LoRA adapts: in to out, for each of several experts.
type linear struct {
	in, out, experts int64
	packed           bool
}

// Need is an estimate in bytes.
type Need struct{ Weights, Parameters, Activations, Logits int64 }

// Total returns the sum of the parts.
func (n Need) Total() int64 { return n.Weights + n.Parameters + n.Activations + n.Logits }

// shapeConfig is the part of config.json that is read. Models with several parts have theirs in
// text_config.
type shapeConfig struct {
	Layers      int `json:"num_hidden_layers"`
	Hidden      int `json:"hidden_size"`
	Heads       int `json:"num_attention_heads"`
	Vocab       int `json:"vocab_size"`
	PerToken    int `json:"num_experts_per_tok"`
	DeltaHeads  int `json:"linear_num_value_heads"`
	DeltaKeys   int `json:"linear_key_head_dim"`
	DeltaValues int `json:"linear_value_head_dim"`
	MambaHeads  int `json:"mamba_n_heads"`
	MambaDim    int `json:"mamba_d_head"`
	MambaState  int `json:"mamba_d_state"`
	NemotronDims
	Quantization struct {
		GroupSize int64 `json:"group_size"`
	} `json:"quantization"`
	Text json.RawMessage `json:"text_config"`
}

// NemotronDims are other names of the sizes of Mamba.
type NemotronDims struct {
	NemotronHeads int `json:"mamba_num_heads"`
	NemotronDim   int `json:"mamba_head_dim"`
	NemotronState int `json:"ssm_state_size"`
}

// ReadShape reads the shape of the model in a folder. The error is a Problem.
func ReadShape(dir string) (Shape, error) {
	var s Shape
	c, err := readShapeConfig(dir)
	if err != nil {
		return s, err
	}
	s.Layers, s.Hidden, s.Heads, s.Vocab = c.Layers, c.Hidden, c.Heads, c.Vocab
	if s.PerToken = c.PerToken; s.PerToken < 1 || s.PerToken > 1000 {
		s.PerToken = 8
	}
	s.StateBytes = stateBytes(c.DeltaHeads, c.DeltaKeys, c.DeltaValues)
	if heads := cmp.Or(c.MambaHeads, c.NemotronHeads); s.StateBytes == 0 {
		s.StateBytes = stateBytes(heads, cmp.Or(c.MambaDim, c.NemotronDim),
			cmp.Or(c.MambaState, c.NemotronState))
		if s.StateBytes > 0 {
			s.MambaHeads = int64(heads)
		}
	}
	w, err := safetensors.OpenDir(dir)
	if err != nil {
		return s, notStarted(problem.ModelBroken, "Download or convert the model again.", "%v",
			err)
	}
	defer w.Close()
	s.layers = make([]layer, s.Layers)
	for _, name := range w.Names() {
		t, _ := w.Tensor(name)
		s.WeightBytes += int64(len(t.Data))
		s.add(t, w, c.Quantization.GroupSize)
	}
	return s, nil
}

// stateBytes returns the bytes of a gated delta layer's state, 0 for sizes that no model has.
func stateBytes(heads, keys, values int) int64 {
	const most = 1 << 16
	for _, n := range []int{heads, keys, values} {
		if n < 0 || n > most {
			return 0
		}
	}
	return 4 * int64(heads) * int64(keys) * int64(values)
}

func readShapeConfig(dir string) (c shapeConfig, err error) {
	data, err := modelfile.Read(dir + "/config.json")
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil && c.Text != nil {
		quantization := c.Quantization
		if err = json.Unmarshal(c.Text, &c); c.Quantization.GroupSize == 0 {
			c.Quantization = quantization
		}
	}
	if err == nil && (c.Layers < 1 || c.Layers > 1000 || c.Hidden < 1 || c.Heads < 1 ||
		c.Vocab < 1) {
		err = fmt.Errorf("it has %d layers of %d, %d heads and %d tokens", c.Layers, c.Hidden,
			c.Heads, c.Vocab)
	}
	if err != nil {
		err = notStarted(problem.ModelBroken, "Download or convert the model again.",
			"the model's config.json cannot be used: %v", err)
	}
	return c, err
}

var (
	inLayer = regexp.MustCompile(`(?:^|\.)layers\.(\d{1,3})\.(.+)$`)
	noModel = regexp.MustCompile(`(?:^|\.)(mtp|visual|vision\w*|audio\w*|\w*_tower)\.`)
)

// add counts a tensor in its layer.
func (s *Shape) add(t safetensors.Tensor, w *safetensors.Checkpoint, group int64) {
	m := inLayer.FindStringSubmatch(t.Name)
	if m == nil || noModel.MatchString(t.Name) {
		return
	}
	i, _ := strconv.Atoi(m[1])
	if i >= len(s.layers) {
		return
	}
	l := &s.layers[i]
	l.bytes += int64(len(t.Data))
	l.gatedDelta = l.gatedDelta || strings.Contains(t.Name, ".linear_attn.")
	l.mamba = l.mamba || s.MambaHeads > 0 && strings.HasSuffix(t.Name, ".A_log")
	l.attention = l.attention || strings.Contains(t.Name, ".self_attn.")
	if t.DType == safetensors.F32 && (strings.HasSuffix(t.Name, "norm.weight") ||
		strings.HasSuffix(t.Name, ".scales")) {
		s.Float32 = true
	}
	base, isWeight := strings.CutSuffix(t.Name, ".weight")
	if n := len(t.Shape); !isWeight || n < 2 || n > 3 || strings.Contains(base, "conv") {
		return
	}
	out, in, experts := int64(t.Shape[len(t.Shape)-2]), int64(t.Shape[len(t.Shape)-1]), int64(1)
	if len(t.Shape) == 3 {
		experts = int64(t.Shape[0])
	}
	packed := false
	if scales, ok := w.Tensor(base + ".scales"); ok && len(scales.Shape) == len(t.Shape) {
		s.Quantized, packed = true, true
		in = int64(scales.Shape[len(scales.Shape)-1]) * max(group, 1)
	}
	l.linears = append(l.linears, linear{in, out, experts, packed})
}

// Need estimates what a training needs. tokens is the number of tokens of a sample in a batch.
func (s *Shape) Need(o *Options, tokens int) Need {
	first := 0
	if n := *o.NumLayers; n > 0 {
		first = max(len(s.layers)-n, 0)
	}
	need := Need{Weights: s.WeightBytes}
	batch := int64(o.BatchSize) * int64(tokens)
	scores := batch * int64(tokens) * int64(s.Heads)
	width := int64(1) // activations of float32 take twice the memory
	if s.Float32 {
		width = 2
	}
	var largest int64
	recomputed := int64(2) // times a layer, if it is computed again
	for _, l := range s.layers[first:] {
		need.Parameters += l.trained(o)
		kept := width * batch * l.perToken(s)
		if l.gatedDelta {
			kept += batch * keptStates * s.StateBytes
			recomputed = 3
		}
		if l.mamba {
			kept += batch * s.MambaHeads * min(int64(tokens), mambaChunk) * mambaBytes
			recomputed = 3
		}
		if !l.gatedDelta && !l.mamba || l.attention {
			kept += width * scores * scoreBytes
		}
		largest = max(largest, kept)
		need.Activations += kept
	}
	// The gradients of the layer that the backward pass is in; or in the forward pass, the states
	// of a layer that is not trained.
	has := s.kinds()
	if has.gatedDelta {
		need.Activations = max(need.Activations, batch*s.StateBytes)
	}
	if has.mamba {
		later := int64(o.BatchSize) * max(int64(tokens)-mambaChunk, 0)
		largest += later * s.StateBytes
	}
	need.Activations += largest
	if o.GradCheckpoint {
		// The input of each layer is kept. The rest of one layer at a time is computed again.
		inputs := width * batch * int64(s.Hidden) * 2 * int64(len(s.layers)-first)
		need.Activations = min(need.Activations, inputs+recomputed*largest)
	}
	need.Logits = width * batch * int64(s.Vocab) * logitBytes10 / 10
	return need
}

// kinds returns a layer that is all that layers of the model are.
func (s *Shape) kinds() (all layer) {
	for _, l := range s.layers {
		all.gatedDelta = all.gatedDelta || l.gatedDelta
		all.mamba = all.mamba || l.mamba
	}
	return all
}

// The fitted factors, for activations of 16 bits; see memory_test.go.
const (
	scoreBytes  = 3 // for each head and pair of tokens: scores and their softmax
	tokenBytes  = 3 // for each input and output of a linear
	hiddenBytes = 8
	keptStates  = 2 // of each token in a gated delta layer

	mambaChunk   = 256 // tokens
	mambaBytes   = 16  // for each head and pair of tokens of a chunk
	logitBytes10 = 85  // tenths
)

// optimizerMoments is how many numbers an optimizer keeps of each parameter.
var optimizerMoments = map[string]int64{"adam": 2, "adamw": 2, "muon": 1, "sgd": 0, "adafactor": 1}

// trained returns the bytes of what is trained of the layer: the parameters, their gradients, and
// the optimizer's moments.
func (l *layer) trained(o *Options) (bytes int64) {
	copies := 2 + optimizerMoments[o.Optimizer]
	if o.Accumulate > 1 {
		copies++
	}
	if o.FineTuneType == "full" {
		return l.bytes * fullHalves[o.Optimizer] / 2
	}
	for _, m := range l.linears {
		bytes += m.experts * (m.in + m.out) * int64(o.Rank) * 4 * copies
		if o.FineTuneType == "dora" {
			// DoRA computes the norm of the adapted matrix. A packed one is unpacked for that.
			each := int64(1)
			if m.packed {
				each = 4
			}
			bytes += m.experts * (m.in*m.out*each + m.out*4*copies)
		}
	}
	return bytes
}

// fullHalves is what full fine-tuning needs of a layer's bytes, beside the layer, in halves: the
// gradients, and moments before and after an update. That of muon is not measured.
var fullHalves = map[string]int64{"adam": 8, "adamw": 8, "muon": 6, "sgd": 3, "adafactor": 3}

// perToken returns the bytes that the backward pass needs of a token in the layer. Of experts, a
// token uses a few.
func (l *layer) perToken(s *Shape) int64 {
	numbers := int64(0)
	for _, m := range l.linears {
		in := m.in
		if l.isRouter(m) {
			in = 0 // the experts keep the same input
		}
		numbers += (in + m.out) * min(m.experts, int64(s.PerToken))
	}
	return numbers*tokenBytes + int64(s.Hidden)*hiddenBytes
}

// isRouter reports whether a linear has an output for each expert.
func (l *layer) isRouter(m linear) bool {
	return m.experts == 1 && slices.ContainsFunc(l.linears,
		func(o linear) bool { return o.experts > 1 && o.experts == m.out && o.in == m.in })
}

// CheckMemory refuses a training that needs more than room. The Problem says which flags need less.
func (s *Shape) CheckMemory(o *Options, tokens int, room int64) (Need, error) {
	need := s.Need(o, tokens)
	if memory.Fits(need.Total(), room) != memory.No {
		return need, nil
	}
	return need, notStarted(problem.DoesNotFit, s.less(o, tokens, room), "it needs about %s of "+
		"memory (%s), and %s are available", memory.Text(need.Total()), need,
		memory.Text(room))
}

// String returns the parts in words.
func (n Need) String() string {
	return fmt.Sprintf("weights %s, trained parameters %s, activations %s, logits %s",
		memory.Text(n.Weights), memory.Text(n.Parameters), memory.Text(n.Activations),
		memory.Text(n.Logits))
}

// less returns a sentence with the flags that need less, and what they need.
func (s *Shape) less(o *Options, tokens int, room int64) string {
	var ways []string
	try := func(flag string, change func(o *Options, tokens *int)) {
		changed, n := *o, tokens
		change(&changed, &n)
		if need := s.Need(&changed, n); need.Total() < s.Need(o, tokens).Total() {
			ways = append(ways, fmt.Sprintf("%s needs %s", flag, memory.Text(need.Total())))
		}
	}
	if !o.GradCheckpoint {
		try("--grad-checkpoint", func(o *Options, _ *int) { o.GradCheckpoint = true })
	}
	try("--batch-size 1", func(o *Options, _ *int) { o.BatchSize = 1 })
	if tokens > 512 {
		try("--max-seq-length 512", func(_ *Options, n *int) { *n = 512 })
	}
	try("--num-layers 4", func(o *Options, _ *int) { o.NumLayers = ref(min(4, s.Layers)) })
	all, n := *o, min(tokens, 512)
	all.GradCheckpoint, all.BatchSize, all.NumLayers = true, 1, ref(min(4, s.Layers))
	if least := s.Need(&all, n).Total(); least > room {
		return fmt.Sprintf("Choose a smaller model, or one with fewer bits: even with all of "+
			"--grad-checkpoint, --batch-size 1, --max-seq-length %d and --num-layers 4 it needs "+
			"%s.", n, memory.Text(least))
	}
	return "Use less, alone or together: " + strings.Join(ways, "; ") + "."
}
