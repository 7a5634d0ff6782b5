package cache

// Formats of recurrent states. Unlike keys and values, a state is rounded again with every token.
// kernels/recurrent defines the rounding, and FORMATS.md lists the cost of each format.

import (
	"fmt"

	"headroom/kernels"
	"headroom/kernels/recurrent"
)

// StateFormat is the format of recurrent states. The zero value is float32.
type StateFormat struct{ dtype kernels.DType }

var stateFormats = []struct {
	name   string
	format StateFormat
}{{"f32", StateFormat{kernels.F32}}, {"bf16", StateFormat{kernels.BF16}},
	{"int8", StateFormat{kernels.I8}}}

// ParseStateFormat returns the format called name: "f32", "bf16" or "int8". "" means "f32".
func ParseStateFormat(name string) (StateFormat, error) {
	if name == "" {
		return StateFormat{}, nil
	}
	for _, f := range stateFormats {
		if f.name == name {
			return f.format, nil
		}
	}
	return StateFormat{}, fmt.Errorf("state format: got %q, expected f32, bf16 or int8", name)
}

func (f StateFormat) String() string {
	for _, known := range stateFormats {
		if known.format == f {
			return known.name
		}
	}
	return f.dtype.String()
}

// Describe returns the name of the format, or "none" if the layers of specs have no recurrent
// state.
func (f StateFormat) Describe(specs []LayerSpec) string {
	if SlotBytes(specs, f) == 0 {
		return "none"
	}
	return f.String()
}

// cols returns the number of columns of a recurrent layer's Conv and State. 0 means that the layer
// has none.
func (f StateFormat) cols(s LayerSpec) (conv, state int) {
	if s.ConvValues > 0 {
		conv = recurrent.ConvStateCols(f.dtype, s.ConvValues/s.ConvChannels+1, s.ConvChannels)
	}
	if s.StateValues > 0 {
		state = recurrent.StateCols(f.dtype, s.StateValues/s.StateRow, s.StateRow)
	}
	return conv, state
}

// tensors allocates a recurrent layer's Conv and State. Each may be none.
func (f StateFormat) tensors(d kernels.Device, s LayerSpec, slots int) (_, _ kernels.Tensor) {
	allocate := func(cols int) (t kernels.Tensor) {
		if cols > 0 {
			t = kernels.NewTensor(d, f.dtype, slots, cols)
		}
		return t
	}
	conv, state := f.cols(s)
	return allocate(conv), allocate(state)
}

// SlotBytes returns the bytes of one sequence's recurrent state, summed over all layers.
func SlotBytes(specs []LayerSpec, f StateFormat) int64 {
	n := int64(0)
	for _, s := range specs {
		conv, state := f.cols(s)
		n += int64(f.dtype.Size())*int64(conv+state) +
			int64(kernels.F32.Size()*s.HiddenValues)
	}
	return n
}
