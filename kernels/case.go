package kernels

import (
	"hash/fnv"
	"math/rand/v2"
)

// Case is one operator with operands of one shape. The tests compare every device with the
// reference on it, and the benchmark times it. Each family lists its cases in a function Cases,
// which headroom selftest and headroom bench use too.
type Case struct {
	Name string
	// New builds the operator on d, fills its operands with numbers from r and returns the
	// operator's outputs with it.
	New func(d Device, r *rand.Rand) (op Op, outputs []Tensor)
	// AbsTol and RelTol limit the error of an output element to AbsTol + RelTol*|reference|. If
	// both are 0 the result must be exact.
	AbsTol, RelTol float64
	Why            string // the reason for the tolerances
	// Bytes is the memory that one run must move, and Flops the operations it must do. The
	// benchmark skips a case whose values are both 0.
	Bytes, Flops int64
}

// Rand returns a source of random numbers seeded by the case's name, so that a case has the same
// operands everywhere.
func (c Case) Rand() *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// RandomTensor allocates a float32 tensor of normally distributed values with standard deviation
// scale.
func RandomTensor(d Device, r *rand.Rand, rows, cols int, scale float64) Tensor {
	t := NewTensor(d, F32, rows, cols)
	x := t.Float32s()
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return t
}
