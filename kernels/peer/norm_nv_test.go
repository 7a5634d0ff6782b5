//go:build nv && linux

package peer

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
	"headroom/kernels/norm"
	"headroom/metal"
)

// rmsNorm is one without a residual.
type rmsNorm struct{ rows, n int }

func (n rmsNorm) name() string { return fmt.Sprintf("rms_norm [%d, %d]", n.rows, n.n) }

// bytes is what ours reads and writes; MLX's bfloat16 has half of it.
func (n rmsNorm) bytes() int { return 8 * n.rows * n.n }

func (n rmsNorm) tolerance() float64 { return 0.02 }

func (n rmsNorm) build(d kernels.Device, m *mlxSide, r *rand.Rand) pair {
	x := kernels.RandomTensor(d, r, n.rows, n.n, 1)
	w := kernels.RandomTensor(d, r, 1, n.n, 1)
	xBytes, wBytes := m.memory(roundedToBF16(x)), m.memory(roundedToBF16(w))
	out := kernels.NewTensor(d, kernels.F32, n.rows, n.n)
	y := m.empty(2 * n.rows * n.n)
	k := m.pipeline(mlxKernel{files: []string{"rms_norm.metal"},
		instance: "rms_single_row<bfloat16_t>", constants: map[string]any{"has_w": true}})
	c := call{label: "rms", pipeline: k, groups: metal.Size{X: n.rows, Y: 1, Z: 1},
		threads: metal.Size{X: (n.n/4 + 31) / 32 * 32, Y: 1, Z: 1},
		bindings: append([]metal.Binding{xBytes, wBytes, y},
			m.scalars(float32(1e-6), n.n, 1)...)}
	return pair{ours: &norm.RMSNorm{X: x, Weight: w, Out: out, Eps: 1e-6},
		results: []result{{ours: out, theirs: y}},
		theirs:  map[string][]call{"rms_single_row": {c}}}
}
