package golden

// What is kept of an answer, and how another answer is held against it.

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"headroom/kernels"
)

const maxParts = 16

// parts cuts n elements into parts of almost equal length: part i is [from(i), from(i+1)).
type parts struct{ n, count int }

func partsOf(n int) parts      { return parts{n, min(n, maxParts)} }
func (p parts) from(i int) int { return i * p.n / p.count }

// another place in each
func (p parts) sample(i int) int { return p.from(i) + i*7%(p.from(i+1)-p.from(i)) }

// Vector is what is kept of r's answer.
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

// sumOf adds up elements [from, to), and their magnitudes.
func sumOf(b []byte, from, to int) (sum, magnitude float64) {
	for i := from; i < to; i++ {
		x := float64(element(b, i))
		sum += x
		magnitude += math.Abs(x)
	}
	return sum, magnitude
}

// Compare holds r's answer to c against v. sameBits tells that every output has the simulation's
// bits; the error names the first output that is too far from them. What has no tolerance must have
// the bits.
func (r *Run) Compare(c kernels.Case, v Vector) (sameBits bool, err error) {
	outputs := r.Outputs()
	if len(outputs) != len(v.Outputs) {
		return false, fmt.Errorf(
			"%d outputs, the golden vector has %d: it is of another version of the case",
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

// output compares one output that has other bits.
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
		return fmt.Errorf("other bits than the simulation's, where they must be the same%s", at)
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

// near tells whether two sums of n elements differ by no more than n elements may, and the rounding
// of the kept sum.
func (t Tolerance) near(got, want float64, n int, magnitude float64) bool {
	return math.Abs(got-want) <= float64(n)*t.Abs+t.Rel*magnitude+math.Abs(want)*0x1p-23
}
