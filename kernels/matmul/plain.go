package matmul

import (
	"math"

	"headroom/kernels"
)

// Both paths in plain Go. floatRows is the specification; int8Rows and roundRow have the bits of
// the C kernels.

// floatRows dequantizes each row of the weight and adds up products in float64.
func (in *input) floatRows(p *Part, expert, from, to int, r rows) {
	weight := make([]float32, p.W.K)
	for n := from; n < to; n++ {
		p.W.DequantizeRow(weight, expert*p.W.N+n)
		for i := range r.count {
			out, from := r.at(i)
			var sum float64
			for k, x := range in.x.Row(from) {
				sum += float64(x) * float64(weight[k])
			}
			p.Out.Row(out)[n] = float32(sum)
		}
	}
}

// roundRow rounds x to codes, 64 elements at a time, and sets params to its scales and sums (see
// input).
func roundRow(x []float32, codes []int8, params []float32) {
	clear(params)
	c := paddedChunks(len(x))
	scale, scale32, sums32, sums64, codes32 := params[:c], params[c:3*c], params[3*c:5*c],
		params[5*c:6*c], params[6*c:]
	for at := 0; at < len(x); at += chunk {
		i := at / chunk
		var amax, nan float32
		for _, v := range x[at:min(at+chunk, len(x))] {
			amax = max(amax, float32(math.Abs(float64(v))))
			nan += v * 0
		}
		s := amax/127 + nan // an infinite or NaN input gives a NaN output
		var sums [2]int32
		for j := range chunk {
			q := int8(0)
			if at+j < len(x) && s >= 0x1p-126 {
				q = int8(math.RoundToEven(float64(x[at+j] / s)))
			}
			codes[at+j] = q
			sums[j/32] += int32(q)
		}
		scale[i], scale32[2*i], scale32[2*i+1] = s, s, s
		codes32[2*i], codes32[2*i+1] = float32(sums[0]), float32(sums[1])
		sums32[2*i], sums32[2*i+1] = s*float32(sums[0]), s*float32(sums[1])
		sums64[i] = s * float32(sums[0]+sums[1])
	}
}

// int8Rows multiplies with rounded activations.
func (in *input) int8Rows(p *Part, expert, from, to int, r rows) {
	w := p.W
	codes, values := make([]uint8, chunks(w.K)*chunk), make([]int16, chunks(w.K)*chunk)
	scales, biases := make([]float32, w.K/w.Group), make([]float32, w.K/w.Group)
	if w.Mode == kernels.MXFP4 {
		biases = nil
	}
	for n := from; n < to; n++ {
		row := expert*w.N + n
		w.DecodeCodes(codes, row)
		if w.Mode == kernels.MXFP4 {
			for i, c := range codes {
				values[i] = int16(kernels.MXFP4Doubled[c])
			}
			w.DecodeHalfScales(scales, row)
		} else {
			for i, c := range codes {
				values[i] = int16(c)
			}
			w.Scales.DecodeRow(scales, row)
			w.Biases.DecodeRow(biases, row)
		}
		for i := range r.count {
			out, from := r.at(i)
			p.Out.Row(out)[n] = int8Dot(values[:w.K], scales, biases, w.Group, in.codes(from),
				in.params(from))
		}
	}
}

// int8Dot returns one element of the output. A unit is 64 elements, or 32 in groups of 32. For each
// unit it adds two terms to one of sixteen lanes: the integer sum of the products, scaled, and the
// group's bias, if any, times the sum of the unit's activations. Then it adds the lanes.
func int8Dot(values []int16, scales, biases []float32, group int, q []int8,
	params []float32) float32 {
	c := len(params) / chunkParams
	unit, scale, sums := chunk, params[:c], params[5*c:]
	if group == 32 {
		unit, scale, sums = 32, params[c:3*c], params[3*c:5*c]
	}
	var lanes [16]float32
	for u := range len(values) / unit {
		at, lane := u*unit, &lanes[u%16]
		var dot int32
		for j := at; j < at+unit; j++ {
			dot += int32(values[j]) * int32(q[j])
		}
		*lane = fma(float32(dot), scales[at/group]*scale[u], *lane)
		if biases != nil {
			*lane = fma(biases[at/group], sums[u], *lane)
		}
	}
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			lanes[i] += lanes[i+half]
		}
	}
	return lanes[0]
}

// fma returns a*b + c rounded once to float32. The product is exact in float64. An inexact sum is
// made odd in its last bit, so that rounding it again cannot meet a false tie (Boldo and Melquiond
// 2008, "Emulation of FMA and correctly rounded sums").
func fma(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	e := (p - (s - t)) + (q - t)
	if e != 0 && math.Float64bits(s)&1 == 0 && !math.IsInf(s, 0) {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), e))
	}
	return float32(s)
}
