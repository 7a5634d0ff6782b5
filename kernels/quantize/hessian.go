package quantize

// The Hessian of a linear layer: the sum of x xᵀ over its inputs x. The error that rounding its
// weights causes in its outputs, summed over the inputs, is tr(E H Eᵀ) for the errors E of the
// weights.
//
// Factor turns it into M D Mᵀ with M unit upper triangular. Then the error of a row e is the sum
// over columns j of D[j] (e[j] + sum of e[k] M[k][j] for k < j)². This is GPTQ (Frantar et al.
// 2023) without the inverse of H, as LDLQ (Chee et al. 2023) shows: once the columns before j are
// rounded, the best value for column j is its own plus that inner sum.

import (
	"fmt"

	"headroom/kernels/cpu"
)

// Hessian is the sum of x xᵀ of vectors x. The zero value is not valid; use NewHessian.
type Hessian struct {
	n       int
	a       matrix // the upper triangle, and after Factor that of M, with D on the diagonal
	isa     cpu.ISA
	threads int

	diagonal bool // there were no inputs: after Factor it is the identity
}

// HessianBytes returns the memory of a Hessian of n columns.
func HessianBytes(n int) int { return 8 * n * n }

// NewHessian returns a Hessian of n columns that is zero. It works on so many threads, which do not
// change its bits.
func NewHessian(n int, isa cpu.ISA, threads int) *Hessian {
	return &Hessian{n: n, a: matrix{make([]float64, n*n), n}, isa: isa, threads: threads}
}

const (
	rowsOfInputs = 128 // inputs that are added at once
	rowsOfTile   = 64  // rows of the matrix that one thread works on
	factorBlock  = 64  // columns that are factored at once
)

// Add adds weight times the products of some inputs. input returns input i, with n elements.
func (h *Hessian) Add(count int, input func(i int) []float32, weight float64) {
	x := matrix{make([]float64, rowsOfInputs*h.n), h.n}
	for from := 0; from < count; from += rowsOfInputs {
		rows := min(rowsOfInputs, count-from)
		for i := range rows {
			to := x.data[i*h.n:][:h.n]
			for j, v := range input(from + i) {
				to[j] = float64(v)
			}
		}
		each(h.threads, (h.n+rowsOfTile-1)/rowsOfTile, func(tile int) {
			i := tile * rowsOfTile
			addOuter(h.isa, h.a.at(i, i), x.at(0, i), x.at(0, i), min(rowsOfTile, h.n-i), h.n-i,
				rows, weight)
		})
	}
}

// AddHessian adds another Hessian of as many columns, which is not factored.
func (h *Hessian) AddHessian(other *Hessian) {
	for i, v := range other.a.data {
		h.a.data[i] += v
	}
}

// Factor adds damping times the mean of the diagonal to the diagonal, and factors the result. A
// Hessian that is zero becomes the identity. The error says that H has no such factors.
func (h *Hessian) Factor(damping float64) error {
	n, sum := h.n, 0.0
	for i := range n {
		sum += h.a.data[i*n+i]
	}
	shift := damping * sum / float64(n)
	if !(shift > 0) {
		if sum != 0 || damping == 0 {
			return fmt.Errorf("the inputs of a layer have the mean square %g", sum/float64(n))
		}
		shift, h.diagonal = 1, true
	}
	for i := range n {
		h.a.data[i*n+i] += shift
	}
	if h.diagonal {
		return nil
	}
	panel := matrix{make([]float64, factorBlock*n), n}  // columns of M, each as a row
	scaled := matrix{make([]float64, factorBlock*n), n} // the same times D
	for end := n; end > 0; {
		start := max(0, end-factorBlock)
		if err := h.factorPanel(panel, scaled, start, end); err != nil {
			return err
		}
		each(h.threads, (start+rowsOfTile-1)/rowsOfTile, func(tile int) {
			i := tile * rowsOfTile
			addOuter(h.isa, h.a.at(i, i), panel.at(0, i), scaled.at(0, i),
				min(rowsOfTile, start-i), start-i, end-start, -1)
		})
		end = start
	}
	return nil
}

// factorPanel factors columns [start, end), of which later columns have been subtracted.
func (h *Hessian) factorPanel(panel, scaled matrix, start, end int) error {
	n := h.n
	for i := range end {
		for j := max(start, i); j < end; j++ {
			panel.data[(j-start)*n+i] = h.a.data[i*n+j]
		}
	}
	for j := end - 1; j >= start; j-- {
		column := panel.data[(j-start)*n:][:j+1]
		d := column[j]
		if !(d > 0) || d > 1e300 {
			return fmt.Errorf("the Hessian of a layer is not positive: column %d has %g", j, d)
		}
		for i := range j {
			scaled.data[(j-start)*n+i] = column[i]
			column[i] /= d
		}
		scaled.data[(j-start)*n+j] = d
		for l := start; l < j; l++ {
			factor := scaled.data[(j-start)*n+l]
			to := panel.data[(l-start)*n:][:l+1]
			for i := range to {
				to[i] -= float64(factor * column[i])
			}
		}
	}
	for i := range end {
		for j := max(start, i); j < end; j++ {
			h.a.data[i*n+j] = panel.data[(j-start)*n+i]
		}
	}
	return nil
}
