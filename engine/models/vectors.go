package models

// Models that compute a vector of a text, or a score, instead of the next token. They have the
// layers of a language model, or of an encoder, and after them the modules of sentence-transformers
// (modelfile.Modules): the hidden states of a text are pooled into one row, from which a few layers
// compute the result. A language model that scores compares the logits of two tokens.

import (
	"fmt"

	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

// Vectors describes what a model computes of a text.
type Vectors struct {
	Task      modelfile.Task
	Pooling   modelfile.Pooling
	Hidden    int  // columns of the hidden states
	Size      int  // dimensions of a vector; 1 for a score
	Normalize bool // a vector is divided by its length
	// Whole says that tokens see those that follow. All tokens of a text are then in one pass.
	Whole bool
}

// vectorModel is a Model with layers after the pooling.
type vectorModel struct {
	Model
	spec Spec
	head []headLayer
}

// headLayer is a linear layer with an activation, and a norm after that.
type headLayer struct {
	nn.Linear
	tanh     bool
	geluOnes kernels.Tensor // [1, N] for the activation GELU, else none
	norm     layerNorm      // or none
}

func (l *headLayer) forward(c *ops.Context, x kernels.Tensor) kernels.Tensor {
	x = c.AddBias(c.Project(x, l.Weight), l.Bias)
	if l.tanh {
		c.SoftCap(x, 1) // tanh(x)
	}
	if !l.geluOnes.IsNone() {
		x = c.GELUErfMul(x, l.geluOnes)
	}
	return l.norm.forward(c, x)
}

func (m *vectorModel) Spec() Spec { return m.spec }

// Logits returns the vectors [len(rows), Size] of rows of x, which are pooled hidden states.
func (m *vectorModel) Logits(c *ops.Context, x kernels.Tensor, rows []int32) kernels.Tensor {
	x = c.Rows(x, rows)
	for i := range m.head {
		x = m.head[i].forward(c, x)
	}
	return x
}

// hasHead reports whether the model needs the head of a language model.
func hasHead(w *checkpoint.Weights) bool {
	return w.Config.Modules == nil || w.Config.Modules.Score != nil
}

// withModules returns m, a *decoder or an *encoder, with the modules of its checkpoint.
func withModules(m Model, w *checkpoint.Weights) (Model, error) {
	modules, width, whole := w.Config.Modules, 0, true
	d, _ := m.(*decoder)
	e, _ := m.(*encoder)
	if d != nil {
		width, whole = d.embedTokens.K, d.bidirectional
	} else {
		width = e.width()
	}
	v := &vectorModel{Model: m, spec: m.Spec()}
	v.spec.Vectors = &Vectors{Task: modules.Task, Pooling: modules.Pooling, Hidden: width,
		Size: width, Normalize: modules.Normalize, Whole: whole}
	if modules.MaxTokens > 0 {
		v.spec.ContextTokens = min(v.spec.ContextTokens, modules.MaxTokens)
	}
	switch {
	case modules.Score != nil && d != nil && w.Config.ModelType == "qwen3":
		score, err := d.scoreLayer(w)
		if err != nil {
			return nil, err
		}
		v.head, v.spec.Vectors.Size = []headLayer{score}, score.Weight.N
		return v, nil
	case modules.Score != nil:
		return nil, unsupported(w, "it compares the logits of two tokens, and only the prompt of "+
			"Qwen3-Reranker is known")
	case modules.Task == modelfile.Rerank:
		return v, v.addClassifier(e, w)
	}
	return v, v.addDense(w)
}

// addClassifier adds the head of the classifier e, which is nil if the model is no encoder.
func (v *vectorModel) addClassifier(e *encoder, w *checkpoint.Weights) error {
	if e != nil {
		v.head = e.classifier()
	}
	if len(v.head) == 0 {
		return unsupported(w, "it is a classifier whose head is not known")
	}
	pooling := e.classifierPooling
	if pooling != modelfile.PoolFirst && pooling != modelfile.PoolMean {
		return unsupported(w, "classifier_pooling is %q, expected cls or mean", pooling)
	}
	v.spec.Vectors.Pooling, v.spec.Vectors.Size = pooling, 1
	return nil
}

// addDense adds the Dense modules of a checkpoint.
func (v *vectorModel) addDense(w *checkpoint.Weights) error {
	vectors := v.spec.Vectors
	for _, d := range w.Config.Modules.Dense {
		name := d.Path + "/config.json: "
		faults := []error{positive(name+"out_features", d.Out)}
		if d.In != vectors.Size {
			faults = append(faults, fmt.Errorf("%sin_features is %d, expected %d", name, d.In,
				vectors.Size))
		}
		if err := validate(w.Config.ModelType, faults...); err != nil {
			return err
		}
		v.head = append(v.head, headLayer{tanh: d.Tanh(),
			Linear: loadLinear(w.Module(d.Path).At(""), "linear", d.Out, d.In, d.Bias)})
		vectors.Size = d.Out
	}
	return nil
}

// scoreLayer returns the rows of the head whose logits make the score: that of True, then that of
// False if there is one.
func (m *decoder) scoreLayer(w *checkpoint.Weights) (headLayer, error) {
	score := w.Config.Modules.Score
	tokens := []int32{*score.True}
	if score.False != nil {
		tokens = append(tokens, *score.False)
	}
	for _, token := range tokens {
		if token < 0 || int(token) >= m.spec.VocabSize {
			return headLayer{}, unsupported(w, "LogitScore compares the token %d, the vocabulary "+
				"has %d", token, m.spec.VocabSize)
		}
	}
	return headLayer{Linear: nn.Linear{Weight: w.At("").Pick(m.lmHead, len(tokens),
		func(i int) int { return int(tokens[i]) })}}, nil
}
