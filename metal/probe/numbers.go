package probe

// How a device rounds. None of these results is an error, but each can explain why two devices
// differ.

import (
	"math"
	"math/rand/v2"
)

// Numbers describes a device's float32 arithmetic in the compiler's safe math mode.
type Numbers struct {
	Contracts bool    // a*b + c is rounded once, although the source has no fma
	Denormals bool    // denormal results are not flushed to zero
	Exp       float64 // largest error over [-20, 20], in units in the last place
	Divide    float64 // the same for 1/x
	Sqrt      float64 // the same for the square root
	// Sum is the order of simd_sum: "halves" (lane i with lane i^16, ^8, ...), "neighbours" (i^1,
	// ^2, ...), "in order", or "otherwise".
	Sum string
}

// Numbers measures the device's arithmetic.
func (p *Probe) Numbers() (Numbers, error) {
	const n = 4096
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(40*r.Float64() - 20)
	}
	x[0], x[1] = 1+0x1p-12, 0x1p-126
	p.err = nil
	params, in, out := p.put(n), p.put(floats(x...)...), p.put(make([]uint32, 6*n)...)
	p.dispatch(p.c, "numbers", line(n/256), line(256), params, in, out)
	if !p.finish(p.c) {
		return Numbers{}, p.err
	}
	values := get(out)
	at := func(row, i int) float32 { return math.Float32frombits(values[row*n+i]) }
	f := Numbers{Contracts: at(0, 0) != 0, Denormals: at(1, 1) != 0}
	for i := 2; i < n; i++ {
		v := float64(x[i])
		f.Exp = max(f.Exp, ulps(at(2, i), math.Exp(v)))
		f.Divide = max(f.Divide, ulps(at(3, i), 1/v))
		f.Sqrt = max(f.Sqrt, ulps(at(4, i), math.Sqrt(math.Abs(v))))
	}
	for _, o := range []struct {
		name string
		sum  func(x []float32) float32
	}{{"halves", func(x []float32) float32 { return butterfly(x, []int{16, 8, 4, 2, 1}) }},
		{"neighbours", func(x []float32) float32 { return butterfly(x, []int{1, 2, 4, 8, 16}) }},
		{"in order", inOrder}} {
		same := true
		for from := 32; from < n; from += 32 {
			same = same && o.sum(x[from:from+32]) == at(5, from)
		}
		if same && f.Sum == "" {
			f.Sum = o.name
		}
	}
	if f.Sum == "" {
		f.Sum = "otherwise"
	}
	return f, nil
}

// ulps returns the distance of got from the exact result, in units in the last place of the exact
// result.
func ulps(got float32, exact float64) float64 {
	_, exponent := math.Frexp(exact)
	return math.Abs(float64(got)-exact) / math.Ldexp(1, exponent-24)
}

func butterfly(x []float32, distances []int) float32 {
	var now, next [32]float32
	copy(now[:], x)
	for _, d := range distances {
		for i := range now {
			next[i] = now[i] + now[i^d]
		}
		now = next
	}
	return now[0]
}

func inOrder(x []float32) float32 {
	sum := float32(0)
	for _, v := range x {
		sum += v
	}
	return sum
}
