package quantize

// Rounding with feedback: columns are rounded in order, and the columns that follow make up for the
// errors of those before, as far as the inputs of the layer allow. See hessian.go.
//
// A group gets its scale and bias when its first column is reached, from the values that its
// columns then should have. Of several ranges, and of the lines that fit their codes best, those
// with the least weighted error are chosen. A row whose error is not below that of Pack is packed
// as Pack does. So no row is worse.

import (
	"math"

	"headroom/kernels"
)

// rowsOfFeedback is the number of rows that one thread rounds at once.
const rowsOfFeedback = 16

// Errors are sums over rows of the weighted squared error. Weighted means by the factored Hessian,
// with its damping.
type Errors struct {
	Plain    float64 // of Pack
	Feedback float64 // of the result
}

// PackWithFeedback packs rows of h's columns, like Pack, for the least weighted error. f is affine.
// data has elements of type dtype. h is factored. It works on the threads of h, which do not change
// the result.
func (f Format) PackWithFeedback(h *Hessian, to Packed, data []byte, dtype kernels.DType) Errors {
	rows := len(data) / dtype.Size() / h.n
	blocks := (rows + rowsOfFeedback - 1) / rowsOfFeedback
	errors := make([]Errors, blocks)
	each(h.threads, blocks, func(block int) {
		first := block * rowsOfFeedback
		count := min(rowsOfFeedback, rows-first)
		r := newRounding(f, h, count, dtype)
		part := f.rows(to, h.n, dtype, first, first+count)
		errors[block] = r.pack(part, data[first*h.n*dtype.Size():][:count*h.n*dtype.Size()])
	})
	var sum Errors
	for _, e := range errors {
		sum.Plain += e.Plain
		sum.Feedback += e.Feedback
	}
	return sum
}

// rows returns the memory of rows [from, to) of n elements.
func (f Format) rows(p Packed, n int, dtype kernels.DType, from, to int) Packed {
	c, s := f.CodeBytes(n), f.ScaleBytes(n, dtype)
	return Packed{Codes: p.Codes[from*c : to*c], Scales: p.Scales[from*s : to*s],
		Biases: p.Biases[from*s : to*s]}
}

// rounding rounds some rows.
type rounding struct {
	f       Format
	h       *Hessian
	count   int
	dtype   kernels.DType
	weights matrix // [count, n] the elements
	targets matrix // [count, n] what they should become, as errors are fed back
	errors  matrix // [group, count] of the group's columns
	line    line
}

func newRounding(f Format, h *Hessian, count int, dtype kernels.DType) *rounding {
	return &rounding{f: f, h: h, count: count, dtype: dtype,
		weights: matrix{make([]float64, count*h.n), h.n},
		targets: matrix{make([]float64, count*h.n), h.n},
		errors:  matrix{make([]float64, f.Group*count), count},
		line:    newLine(f, dtype)}
}

// pack packs the rows, each in the better way.
func (r *rounding) pack(to Packed, data []byte) (sum Errors) {
	n := r.h.n
	values := make([]float32, r.count*n)
	decode(values, data, r.dtype)
	for i, v := range values {
		r.weights.data[i] = float64(v)
	}
	plain := Packed{Codes: make([]byte, len(to.Codes)), Scales: make([]byte, len(to.Scales)),
		Biases: make([]byte, len(to.Biases))}
	r.f.Pack(r.h.isa, plain, data, r.dtype)
	packedError, ownError := make([]float64, r.count), make([]float64, r.count)
	r.round(plain, packedError, false)
	r.round(to, ownError, true)
	for i := range r.count {
		if !(ownError[i] < packedError[i]) {
			own := r.f.rows(to, n, r.dtype, i, i+1)
			other := r.f.rows(plain, n, r.dtype, i, i+1)
			copy(own.Codes, other.Codes)
			copy(own.Scales, other.Scales)
			copy(own.Biases, other.Biases)
			ownError[i] = packedError[i]
		}
		sum.Plain += packedError[i]
		sum.Feedback += ownError[i]
	}
	return sum
}

// round adds the weighted error of each row to sums. With chooses, it chooses what p has. Otherwise
// p is given.
func (r *rounding) round(p Packed, sums []float64, chooses bool) {
	n, group := r.h.n, r.f.Group
	copy(r.targets.data, r.weights.data)
	codes := make([]uint8, group)
	for start := 0; start < n; start += group {
		for i := range r.count {
			g := (i*n + start) / group
			packed := p.Codes[(i*n+start)/8*r.f.Bits:][:group/8*r.f.Bits]
			targets := r.targets.data[i*n+start:][:group]
			var scale, bias float64
			if chooses {
				scale, bias = r.line.fit(targets, r.h, start)
				PutFloat(p.Scales, g, float32(scale), r.dtype)
				PutFloat(p.Biases, g, float32(bias), r.dtype)
			} else {
				scale, bias = getFloat(p.Scales, g, r.dtype), getFloat(p.Biases, g, r.dtype)
				getCodes(codes, packed, r.f.Bits)
			}
			sums[i] += r.roundGroup(codes, i, start, scale, bias, chooses)
			if chooses {
				PutCodes(packed, codes, r.f.Bits)
			}
		}
		if end := start + group; end < n && !r.h.diagonal {
			addOuter(r.h.isa, r.targets.at(0, end), r.errors, r.h.a.at(start, end), r.count,
				n-end, group, 1)
		}
	}
}

// roundGroup rounds the columns of a group of row i, or takes their codes as they are, feeds their
// errors back within the group, and returns its weighted error.
func (r *rounding) roundGroup(codes []uint8, i, start int, scale, bias float64,
	chooses bool) (sum float64) {
	n, group := r.h.n, r.f.Group
	targets := r.targets.data[i*n+start:][:group]
	weights := r.weights.data[i*n+start:][:group]
	for j := range group {
		if chooses {
			codes[j] = r.line.code(targets[j], scale, bias)
		}
		row := r.h.a.data[(start+j)*n+start:][:group]
		value := element(codes[j], scale, bias)
		off := targets[j] - value
		sum += float64(float64(row[j]*off) * off)
		e := weights[j] - value
		r.errors.data[j*r.errors.stride+i] = e
		for k := j + 1; k < group && !r.h.diagonal; k++ {
			targets[k] += float64(e * row[k])
		}
	}
	return sum
}

// element returns what a code stands for.
func element(code uint8, scale, bias float64) float64 {
	return float64(float32(float64(float64(code)*scale) + bias))
}

// line finds the scale and the bias of a group.
type line struct {
	most  float64 // the largest code
	dtype kernels.DType
	f     Format
	codes []float64
	group []float32
	plain []uint8
	round [4]byte
}

func newLine(f Format, dtype kernels.DType) line {
	return line{most: float64(int(1)<<f.Bits - 1), dtype: dtype, f: f,
		codes: make([]float64, f.Group), group: make([]float32, f.Group),
		plain: make([]uint8, f.Group)}
}

// The ranges that are tried: the whole one, and those that are shorter by so many steps of its
// length, at both ends.
const (
	rangesTried = 10
	rangeStep   = 0.045
	refits      = 3 // lines fitted to the codes of each range
)

// fit returns the scale and the bias for targets, the columns of h from start on, that have the
// least error weighted by D. They have the type of scales.
func (l *line) fit(targets []float64, h *Hessian, start int) (scale, bias float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for i, v := range targets {
		low, high = min(low, v), max(high, v)
		l.group[i] = float32(v)
	}
	s, b := affineGroup(l.plain, l.group, l.f.Bits)
	scale, bias = l.rounded(float64(s)), l.rounded(float64(b))
	least := l.error(targets, h, start, scale, bias)
	for i := range rangesTried {
		cut := float64(float64(i)*rangeStep) * (high - low) / 2
		s := (high - low - 2*cut) / l.most
		b := low + cut
		for range refits {
			s, b = l.rounded(s), l.rounded(b)
			if !(math.Abs(s) > 1e-30) {
				break
			}
			e := l.error(targets, h, start, s, b)
			if e < least {
				scale, bias, least = s, b, e
			}
			var ok bool
			if s, b, ok = l.refit(targets, h, start); !ok {
				break
			}
		}
	}
	return scale, bias
}

// error returns the weighted error with a scale and a bias. It leaves the codes in l.
func (l *line) error(targets []float64, h *Hessian, start int, scale, bias float64) (sum float64) {
	for i, v := range targets {
		c := l.code(v, scale, bias)
		off := v - element(c, scale, bias)
		l.codes[i] = float64(c)
		sum += float64(float64(h.a.data[(start+i)*h.n+start+i]*off) * off)
	}
	return sum
}

// refit returns the line that fits the codes in l best.
func (l *line) refit(targets []float64, h *Hessian, start int) (scale, bias float64, ok bool) {
	var w, wc, wv float64
	for i, v := range targets {
		d := h.a.data[(start+i)*h.n+start+i]
		w += d
		wc += float64(d * l.codes[i])
		wv += float64(d * v)
	}
	c, t := wc/w, wv/w
	var cc, ct float64
	for i, v := range targets {
		d, x := h.a.data[(start+i)*h.n+start+i], l.codes[i]-c
		cc += float64(float64(d*x) * x)
		ct += float64(float64(d*x) * (v - t))
	}
	if !(cc > 0) {
		return 0, 0, false
	}
	scale = ct / cc
	return scale, t - float64(scale*c), true
}

// code returns the code for a value.
func (l *line) code(v, scale, bias float64) uint8 {
	c := math.RoundToEven((v - bias) / scale)
	if !(c > 0) {
		return 0
	}
	return uint8(min(c, l.most))
}

// rounded rounds to the type of scales.
func (l *line) rounded(v float64) float64 {
	PutFloat(l.round[:], 0, float32(v), l.dtype)
	return getFloat(l.round[:], 0, l.dtype)
}

// decode reads elements of a type.
func decode(to []float32, from []byte, dtype kernels.DType) {
	kernels.Tensor{Buffer: &kernels.Buffer{Bytes: from, Size: len(from)}, DType: dtype, Rows: 1,
		Cols: len(to), Stride: len(to)}.DecodeRow(to, 0)
}

// getFloat returns element i of b.
func getFloat(b []byte, i int, dtype kernels.DType) float64 {
	var v [1]float32
	decode(v[:], b[i*dtype.Size():], dtype)
	return float64(v[0])
}

// getCodes is the inverse of PutCodes.
func getCodes(codes []uint8, from []byte, bits int) {
	window, have := uint32(0), 0
	for i := range codes {
		if have < bits {
			window |= uint32(from[0]) << have
			from, have = from[1:], have+8
		}
		codes[i] = uint8(window & (1<<bits - 1))
		window, have = window>>bits, have-bits
	}
}
