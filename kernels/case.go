package kernels

import (
	"hash/fnv"
	"math/rand/v2"
)

// Case is one operator with operands of one shape: the test compares every device with the
// reference on it, and the benchmark times it. A family lists its cases in Cases; headroom selftest
// and bench use the same lists.
type Case struct {
	Name string
	// New builds the operator with fresh operands on d, filled from r, and names its outputs.
	New func(d Device, r *rand.Rand) (op Op, outputs []Tensor)
	// An output element may differ from the reference by AbsTol + RelTol*|reference|. Zero both for
	// exact results. Why gives the reason for the numbers.
	AbsTol, RelTol float64
	Why            string
	// Bytes that one run must move and operations it must do, for the benchmark; 0 means not worth
	// timing.
	Bytes, Flops int64
}

// Rand seeds the case's random operands by its name, so that a case has the same numbers
// everywhere.
func (c Case) Rand() *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// RandomTensor is a float32 tensor of normal values times scale.
func RandomTensor(d Device, r *rand.Rand, rows, cols int, scale float64) Tensor {
	t := NewTensor(d, F32, rows, cols)
	x := t.Float32s()
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return t
}
