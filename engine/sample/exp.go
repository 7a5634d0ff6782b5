package sample

import "math"

// exp is e^x for x <= 0 with a relative error below 1e-9, four times as fast as
// math.Exp: a row of 250,000 needs as many. x = n·ln2 + r with |r| <= ln2/2; a
// polynomial gives e^r, and n is added to the exponent bits.
func exp(x float64) float64 {
	if !(x > -700) {
		return 0 // below the smallest normal float64, and masked tokens
	}
	const (
		shift = 1.5 * (1 << 52) // adding it rounds to an integer, kept in the low bits
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
	)
	t := x*math.Log2E + shift
	n := t - shift
	r := x - n*ln2Hi - n*ln2Lo
	r2 := r * r
	// Taylor to r^8, in two chains that the processor runs side by side.
	even := 1 + r2*(1./2+r2*(1./24+r2*(1./720+r2*(1./40320))))
	odd := r * (1 + r2*(1./6+r2*(1./120+r2*(1./5040))))
	return math.Float64frombits(math.Float64bits(even+odd) + math.Float64bits(t)<<52)
}

// expSum returns the sum of exp((logit - peak) / temperature). Four sums, added
// in a fixed order, keep the additions from waiting for each other.
func expSum(logits []float32, peak, temperature float32) float64 {
	scale := 1 / float64(temperature)
	var sums [4]float64
	i := 0
	for ; i+4 <= len(logits); i += 4 {
		x := (*[4]float32)(logits[i:])
		sums[0] += exp(float64(x[0]-peak) * scale)
		sums[1] += exp(float64(x[1]-peak) * scale)
		sums[2] += exp(float64(x[2]-peak) * scale)
		sums[3] += exp(float64(x[3]-peak) * scale)
	}
	for ; i < len(logits); i++ {
		sums[0] += exp(float64(logits[i]-peak) * scale)
	}
	return sums[0] + sums[1] + (sums[2] + sums[3])
}
