package checkpoint

// Stacks of experts that a checkpoint has as one tensor, in the layouts of Hugging Face.

import (
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// refuseStack records that the stack called name, as rows t, does not have a shape.
func (s Scope) refuseStack(name string, t kernels.Tensor, shape ...int) {
	s.w.Failf("tensor %s%s is %s of shape %s, expected floats of shape %s", s.path, name, t.DType,
		safetensors.ShapeText(s.Shape(name)...), safetensors.ShapeText(shape...))
}

// Halves loads a plain stack of shape [e, 2n, k] as two weights: a copy of the first n rows of each
// expert, and a copy of the last n rows. name is the full name of the tensor; see Plain.
func (s Scope) Halves(name string, e, n, k int) (first, last *kernels.Weight) {
	t := s.view(name)
	if s.w.err != nil {
		return &kernels.Weight{}, &kernels.Weight{}
	}
	if t.Rows != e*2*n || t.Cols != k || !isFloat(t) {
		s.refuseStack(name, t, e, 2*n, k)
		return &kernels.Weight{}, &kernels.Weight{}
	}
	pick := func(from int) *kernels.Weight {
		w := &kernels.Weight{Experts: e, N: n, K: k,
			Data: kernels.NewTensor(s.w.Device, t.DType, e*n, k)}
		for i := 0; i < e && w.Data.Buffer.Bytes != nil; i++ {
			copy(w.Data.RowRange(i*n, (i+1)*n).Bytes(),
				t.RowRange(i*2*n+from, i*2*n+from+n).Bytes())
		}
		return w
	}
	return pick(0), pick(n)
}

// Blocks loads the MXFP4 stack of shape [e, n, k] that Hugging Face stores as name_blocks, bytes
// [e, n, k/32, 16], and name_scales, bytes [e, n, k/32]. The bytes are those of MLX's codes.
func (s Scope) Blocks(name string, e, n, k int) *kernels.Weight {
	w := &kernels.Weight{Experts: e, N: n, K: k, Mode: kernels.MXFP4, Bits: 4, Group: 32}
	const elements = 32 // of a block
	blocks, scales := s.view(name+blocksSuffix), s.view(name+hfScalesSuffix)
	if s.w.err != nil {
		return w
	}
	if k%elements != 0 || blocks.DType != kernels.U8 || scales.DType != kernels.U8 ||
		blocks.Rows*blocks.Cols != e*n*k/2 || scales.Rows*scales.Cols != e*n*k/elements {
		text := safetensors.ShapeText
		s.w.Failf("%s%s has blocks of shape %s and scales of shape %s, expected bytes of shape "+
			"%s and %s", s.path, name, text(s.Shape(name+blocksSuffix)...),
			text(s.Shape(name+hfScalesSuffix)...), text(e, n, k/elements, elements/2),
			text(e, n, k/elements))
		return w
	}
	// kernels read codes as words
	s.w.notePacking(w.Mode.String(), e*n*k)
	blocks.DType, blocks.Rows, blocks.Cols, blocks.Stride = kernels.U32, e*n, k/8, k/8
	w.Data, w.Scales = s.keep(blocks), s.keep(scales.Reshape(e*n, k/elements))
	return w
}

// Alternate returns the even and the odd rows of w as two weights. They are views, so nothing is
// copied.
func (s Scope) Alternate(w *kernels.Weight) (even, odd *kernels.Weight) {
	if s.w.err != nil {
		return w, w
	}
	pick := func(first int) *kernels.Weight {
		half := *w
		half.N /= 2
		for _, t := range []*kernels.Tensor{&half.Data, &half.Scales, &half.Biases} {
			if !t.IsNone() {
				*t = t.RowRange(first, t.Rows)
				t.Rows = (t.Rows + 1) / 2
				t.Stride *= 2
			}
		}
		return &half
	}
	return pick(0), pick(1)
}

// Transposed loads the plain stack called name, of shape [e, k, n[0]+n[1]+...], as stacks of shape
// [e, n[0], k], [e, n[1], k] and so on. They are copies.
func (s Scope) Transposed(name string, e, k int, n ...int) []*kernels.Weight {
	t, cols := s.view(name), 0
	parts := make([]*kernels.Weight, len(n))
	for i, rows := range n {
		parts[i] = &kernels.Weight{Experts: e, N: rows, K: k}
		cols += rows
	}
	if s.w.err != nil {
		return parts
	}
	if t.Rows != e*k || t.Cols != cols || !isFloat(t) {
		s.refuseStack(name, t, e, k, cols)
		return parts
	}
	from := 0
	for _, w := range parts {
		w.Data = kernels.NewTensor(s.w.Device, t.DType, e*w.N, k)
		if w.Data.Buffer.Bytes != nil {
			transpose(w.Data, t.Columns(from, from+w.N), e)
		}
		from += w.N
	}
	return parts
}

// Plain loads the plain stack called name, of shape [e, n, k]. Unlike in Experts, name is the full
// name of the tensor, without the suffix ".weight".
func (s Scope) Plain(name string, e, n, k int) *kernels.Weight {
	w := &kernels.Weight{Experts: e, N: n, K: k, Data: s.view(name)}
	if s.w.err == nil {
		if err := w.Check(); err != nil {
			s.refuseWeight(name, w, err)
		}
	}
	w.Data = s.keep(w.Data)
	return w
}
