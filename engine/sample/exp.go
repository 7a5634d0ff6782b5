package sample

import "math"

// expStep is ln2/64; powers[i] is 2^(i/64).
const expStep = math.Ln2 / 64

var powers = func() (t [64]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / 64)
	}
	return t
}()

// exp returns e^x for x <= 0 with a relative error below 1e-9. It is small enough to be inlined,
// because a row needs up to 250,000 calls. It splits x into n·ln2/64 + r with |r| <= ln2/128. The
// Taylor series of e^r up to r^3 suffices. n mod 64 selects a power of two from the table, and n
// div 64 is added to the exponent bits.
func exp(x float64) float64 {
	if !(x > -700) {
		return 0 // below the smallest normal float64, and masked tokens
	}
	const shift = 1.5 * (1 << 52) // adding it rounds to an integer, left in the low bits
	t := x*(1/expStep) + shift
	r := x - (t-shift)*expStep
	n := math.Float64bits(t)
	y := powers[n&63] * (1 + r*(1+r*(1./2+r*(1./6))))
	return math.Float64frombits(math.Float64bits(y) + n>>6<<52)
}

// blockTokens is the number of tokens in a partial sum of expSum.
const blockTokens = 1024

// expSum returns the sum of exp((logit - peak)·scale) over the row.
func expSum(logits []float32, peak float32, scale float64) float64 {
	total := 0.0
	for from := 0; from < len(logits); from += blockTokens {
		total += expBlock(logits[from:min(from+blockTokens, len(logits))], peak, scale)
	}
	return total
}

// expBlock is expSum for one block. Four sums, added in a fixed order, keep the
// additions from waiting for each other.
func expBlock(logits []float32, peak float32, scale float64) float64 {
	var a, b, c, d float64
	for len(logits) >= 4 {
		x := (*[4]float32)(logits)
		a += exp(float64(x[0]-peak) * scale)
		b += exp(float64(x[1]-peak) * scale)
		c += exp(float64(x[2]-peak) * scale)
		d += exp(float64(x[3]-peak) * scale)
		logits = logits[4:]
	}
	for _, x := range logits {
		a += exp(float64(x-peak) * scale)
	}
	return a + b + (c + d)
}
