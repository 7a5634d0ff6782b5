package checkpoint

// What another program has packed: which modules, and stacks of experts that it has packed one by
// one. Integers (integers.go) and floats (floatcodes.go) are the two kinds.

import (
	"fmt"

	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// packedBy returns the method with which another program has packed the module name, or "".
func (s Scope) packedBy(name string) string {
	if s.hasCodes(name) {
		return s.w.Config.Quantization.method.name
	}
	if p := s.floatPacking(name); p != nil {
		return p.method
	}
	return ""
}

// packedCodes is a matrix of codes of another program: integers or floatCodes.
type packedCodes[M any] interface {
	comparable
	weight(experts int, allocate allocator, views bool) *kernels.Weight
	write(w *kernels.Weight, row int) error
	packedAs(other M) bool // so that both can be experts of one weight
	describe() string      // what packedAs compares
}

// stackPacked loads the modules name(0) to name(e-1), each [n, k], into one weight of e experts. It
// allocates no memory until it has found all of them. open returns a module; nil: it is not packed.
func stackPacked[M packedCodes[M]](s Scope, e int, name func(int) string, n, k int,
	open func(name string) M) *kernels.Weight {
	var none M
	var parts []M // grows, because e may be more than the files have
	for i := range e {
		parts = append(parts, open(name(i)))
		switch {
		case s.w.err != nil:
		case parts[i] == none:
			s.refuseMixture(name(0), parts[0].describe(), name(i))
		case !parts[i].packedAs(parts[0]):
			s.refuseExperts(name(0), parts[0].describe(), name(i), parts[i].describe())
		}
		if s.w.err != nil {
			return &kernels.Weight{Experts: e, N: n, K: k}
		}
	}
	w := parts[0].weight(e, s.device, false)
	if err := w.Check(); err != nil {
		s.w.Failf("%s%s: %v", s.path, name(0), err)
		return w
	}
	for i, x := range parts {
		if err := x.write(w, i*n); err != nil {
			s.w.refuse(s.damaged(name(i), err))
			return w
		}
	}
	return w
}

// stackPlain copies the plain modules name(0) to name(e-1), each [n, k], into one weight.
func (s Scope) stackPlain(e int, name func(int) string, n, k int) *kernels.Weight {
	var parts []*kernels.Weight // grows, because e may be more than the files have
	for i := range e {
		if s.packedBy(name(i)) != "" {
			s.refuseMixture(name(0), parts[0].Data.DType.String(), name(i))
			return &kernels.Weight{Experts: e, N: n, K: k}
		}
		parts = append(parts, s.View(name(i), n, k))
		switch {
		case s.w.err != nil:
		case parts[i].Bits != 0:
			s.w.refuse(unsupportedQuantization("%s%s is packed by itself, but separate experts "+
				"must be plain", s.path, name(i)))
		case parts[i].Data.DType != parts[0].Data.DType:
			s.refuseExperts(name(0), parts[0].Data.DType.String(), name(i),
				parts[i].Data.DType.String())
		}
		if s.w.err != nil {
			return parts[i]
		}
	}
	w := &kernels.Weight{Experts: e, N: n, K: k,
		Data: kernels.NewTensor(s.w.Device, parts[0].Data.DType, e*n, k)}
	for i, part := range parts {
		if w.Data.Buffer.Bytes != nil {
			copy(w.Data.RowRange(i*n, (i+1)*n).Bytes(), part.Data.Bytes())
		}
	}
	return w
}

// refuseMixture records that the experts first and other are not packed with the same method, or
// that other is missing. packing describes that of first.
func (s Scope) refuseMixture(first, packing, other string) {
	method := s.packedBy(other)
	if method == "" {
		t, ok := s.w.files.Tensor(s.path + other + weightSuffix)
		if !ok {
			s.w.Failf("tensor %s%s%s is missing", s.path, other, weightSuffix)
			return
		}
		method = "not packed"
		if dtype, known := dtypes[t.DType]; known && t.DType != safetensors.U32 {
			method = dtype.String() + ", which is not packed"
		}
	}
	s.refuseExperts(first, packing, other, method)
}

// refuseExperts records that one weight cannot hold two experts, and how each is stored. Both are
// right, but kernels read the experts of a layer in one format, and none holds both exactly.
func (s Scope) refuseExperts(first, packing, other, otherPacking string) {
	s.w.refuse(unsupportedQuantization("the experts of a layer are stored in different ways: "+
		"%s%s is %s, and %s%s is %s", s.path, first, packing, s.path, other, otherPacking))
}

// unsupportedQuantization returns the Problem of weights that are right, but not supported.
func unsupportedQuantization(format string, args ...any) error {
	return problem.New(problem.UnknownArchitecture, "This quantization is not supported",
		fmt.Sprintf(format, args...), otherWeights)
}
