package convert

// The tensors of the result, and how they come from those of the source. A tensor is a matrix of
// rows. Each row is a row of one tensor of the source: stacking experts, cutting fused projections
// in halves and taking every second row need no more than to say which.

import (
	"slices"

	"headroom/engine/adapter"
	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
	"headroom/kernels/quantize"
)

// tensor is a tensor of the result, before it is packed.
type tensor struct {
	name  string
	shape []int
	// rows and cols are the shape as a matrix. Usually, cols is the last dimension.
	rows, cols int

	values     []*checkpoint.Values // one, or one for each expert of a stack
	pick       pick
	transposed bool // the values are matrices whose columns are the rows of the result
	isRaw      bool // the elements are copied: they are codes, or no floats
	raw        safetensors.DType

	add   float32               // to each element
	scale func(row int) float32 // of a row; nil: 1
	// fusion is what an adapter adds to the rows of the result; nil: nothing.
	fusion *adapter.Fusion

	dtype  kernels.DType    // of the elements, unless they are raw
	format *quantize.Format // nil: plain
	kept   bool             // the codes of a GGUF file stay as they are

	calibrated   bool  // the packed matrix is in the file of packed matrices
	calibratedAt int64 // its place there

	parts [3]part // the tensors in the file: the elements or codes, the scales, the biases
}

// part is a tensor in a file of the result.
type part struct {
	name     string
	dtype    safetensors.DType
	shape    []int
	at       int // in the file
	rowBytes int
}

// pick says which rows of a tensor of the source are those of the result: of each skip rows, those
// from first on in steps, take of them. The zero value picks all.
type pick struct{ take, skip, first, step int }

// row returns the row of the source for row i of the result.
func (p pick) row(i int) int {
	if p.take == 0 {
		return i
	}
	return i/p.take*p.skip + p.first + i%p.take*p.step
}

// perValue returns the number of rows of the result that come from each of its values.
func (t *tensor) perValue() int { return t.rows / len(t.values) }

// setShape sets the shape, and the matrix that it is. That of a convolution [c, k, 1] is [c, k].
func (t *tensor) setShape(shape ...int) {
	t.shape, t.rows, t.cols = slices.Clone(shape), 1, 1
	if n := len(shape); n > 0 {
		t.cols = shape[n-1]
		for _, d := range shape[:n-1] {
			t.rows *= d
		}
		if n == 3 && t.cols == 1 {
			t.rows, t.cols = shape[0], shape[1]
		}
	}
}

// floatTypes maps types of files to those of kernels.
var floatTypes = map[safetensors.DType]kernels.DType{safetensors.F32: kernels.F32,
	safetensors.F16: kernels.F16, safetensors.BF16: kernels.BF16}

// fileTypes is the inverse of floatTypes.
var fileTypes = map[kernels.DType]safetensors.DType{kernels.F32: safetensors.F32,
	kernels.F16: safetensors.F16, kernels.BF16: safetensors.BF16}

// newTensor returns a tensor of the source as it is.
func newTensor(v *checkpoint.Values) *tensor {
	t := &tensor{name: v.Name, values: []*checkpoint.Values{v}}
	t.setShape(v.Shape...)
	if v.Packing == "" {
		if _, ok := floatTypes[v.Tensor.DType]; !ok {
			t.isRaw, t.raw = true, v.Tensor.DType
		}
	}
	return t
}

// setTypes sets the types of all elements.
func (c *conversion) setTypes() error {
	target, err := c.dtype()
	if err != nil {
		return err
	}
	if c.model != nil {
		if err := c.ggufTypes(); err != nil {
			return err
		}
	}
	for _, t := range c.tensors {
		if t.isRaw {
			continue
		}
		if c.model != nil {
			if target != nil && !c.family.keeps(t.name) {
				t.dtype = *target
			}
			continue
		}
		t.dtype = kernels.BF16 // of unpacked values
		if v := t.values[0]; v.Packing == "" {
			t.dtype = floatTypes[v.Tensor.DType]
		}
		if target != nil && (t.values[0].Packing != "" || !c.family.keeps(t.name)) {
			t.dtype = *target
		}
	}
	return nil
}

// dtypeNames are the names of types in config.json, and of mlx-lm's --dtype.
var dtypeNames = map[string]kernels.DType{"float16": kernels.F16, "bfloat16": kernels.BF16,
	"float32": kernels.F32}

// dtype returns the type that all floats get; nil: that which they have. The keys are those that
// mlx-lm reads.
func (c *conversion) dtype() (*kernels.DType, error) {
	name := c.o.DType
	if name == "" {
		var keys struct {
			Type string `json:"torch_dtype"`
			Text struct {
				Type string `json:"dtype"`
			} `json:"text_config"`
		}
		if err := c.config.Decode(&keys); err != nil {
			return nil, err
		}
		if name = keys.Type; name == "" {
			name = keys.Text.Type
		}
		if _, ok := dtypeNames[name]; !ok {
			return nil, nil
		}
	}
	d, ok := dtypeNames[name]
	if !ok {
		return nil, problem.New(problem.BadRequest, "This type of numbers is not known",
			"it is "+name+", expected float16, bfloat16 or float32", "Choose one of them.")
	}
	return &d, nil
}
