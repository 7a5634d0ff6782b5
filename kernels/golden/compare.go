package golden

// Making a vector from a result, and comparing another result with it.

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"headroom/kernels"
)

const maxParts = 16

// parts divides n elements into parts of nearly equal length: part i is [from(i), from(i+1)).
type parts struct{ n, count int }

func partsOf(n int) parts      { return parts{n, min(n, maxParts)} }
func (p parts) from(i int) int { return i * p.n / p.count }

// sample returns the index of the element of part i that a vector keeps.
func (p parts) sample(i int) int { return p.from(i) + i*7%(p.from(i+1)-p.from(i)) }

// Vector returns the vector of r's outputs.
func (r *Run) Vector(c kernels.Case) Vector {
	v := Vector{Case: c.Name, Inputs: Inputs(c)}
	for i, b := range r.Outputs() {
		o := Output{Bytes: Checksum(crc32.Checksum(b, castagnoli))}
		if r.outputs[i].DType == kernels.F32 {
			p := partsOf(len(b) / 4)
			for j := range p.count {
				sum, _ := sumOf(b, p.from(j), p.from(j+1))
				o.Values, o.Sums = append(o.Values, element(b, p.sample(j))),
					append(o.Sums, float32(sum))
			}
		}
		v.Outputs = append(v.Outputs, o)
	}
	return v
}

func element(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// sumOf returns the sum of elements [from, to), and the sum of their magnitudes.
func sumOf(b []byte, from, to int) (sum, magnitude float64) {
	for i := from; i < to; i++ {
		x := float64(element(b, i))
		sum += x
		magnitude += math.Abs(x)
	}
	return sum, magnitude
}

// Compare compares r's outputs with v. sameBits reports that every output has the simulation's
// bits. The error names the first output outside the tolerance. Without a tolerance the bits must
// be equal.
func (r *Run) Compare(c kernels.Case, v Vector) (sameBits bool, err error) {
	outputs := r.Outputs()
	if len(outputs) != len(v.Outputs) {
		return false, fmt.Errorf(
			"got %d outputs, the golden vector has %d: it was made for another version of the case",
			len(outputs), len(v.Outputs))
	}
	t := ToleranceOf(c, r.op)
	sameBits = true
	for i, b := range outputs {
		if Checksum(crc32.Checksum(b, castagnoli)) == v.Outputs[i].Bytes {
			continue
		}
		sameBits = false
		if err := t.output(r.outputs[i].DType, b, v.Outputs[i]); err != nil {
			return false, fmt.Errorf("output %d: %w", i, err)
		}
	}
	return sameBits, nil
}

// output compares an output whose bits differ.
func (t Tolerance) output(dtype kernels.DType, b []byte, want Output) error {
	p := partsOf(len(b) / 4)
	if dtype != kernels.F32 || t.Abs == 0 && t.Rel == 0 || len(want.Values) != p.count ||
		len(want.Sums) != p.count {
		at := ""
		for j := range min(len(want.Values), p.count) {
			if g, w := element(b, p.sample(j)), want.Values[j]; dtype == kernels.F32 &&
				math.Float32bits(g) != math.Float32bits(w) {
				at = fmt.Sprintf(": element %d is %g, expected %g", p.sample(j), g, w)
				break
			}
		}
		return fmt.Errorf("the bits differ from the simulation's, but must be equal%s", at)
	}
	for j := range p.count {
		if g, w := float64(element(b, p.sample(j))),
			float64(want.Values[j]); !t.near(g, w, 1, math.Abs(w)) {
			return fmt.Errorf("element %d is %g, expected %g within %g + %g*|x| (%s)", p.sample(j),
				g, w, t.Abs, t.Rel, t.Why)
		}
		sum, magnitude := sumOf(b, p.from(j), p.from(j+1))
		if w := float64(want.Sums[j]); !t.near(sum, w, p.from(j+1)-p.from(j), magnitude) {
			return fmt.Errorf(
				"elements [%d, %d) add up to %g, expected %g, each within %g + %g*|x| (%s)",
				p.from(j), p.from(j+1), sum, w, t.Abs, t.Rel, t.Why)
		}
	}
	return nil
}

// near reports whether two sums of n elements are within the tolerance of n elements and the
// rounding of the stored sum.
func (t Tolerance) near(got, want float64, n int, magnitude float64) bool {
	return math.Abs(got-want) <= float64(n)*t.Abs+t.Rel*magnitude+math.Abs(want)*0x1p-23
}
