package moe

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }
func BenchmarkNV(b *testing.B)    { kerneltest.BenchNV(b, kerneltest.Timings(Cases())) }

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

// onEach runs f on the reference, on every instruction set and on Metal.
func onEach(t *testing.T, f func(t *testing.T, d kernels.Device)) {
	for _, d := range append(kerneltest.Devices(t), kernels.NewReference()) {
		t.Run(d.Name(), func(t *testing.T) { f(t, d) })
	}
}

// run runs op and waits for it.
func run(d kernels.Device, op kernels.Op) {
	d.Run(op)
	if err := d.Sync(); err != nil {
		panic(err)
	}
}

func expect(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !(math.Abs(float64(got[i]-want[i])) <= 1e-6*math.Abs(float64(want[i]))) {
			t.Errorf("%s: got %v, expected %v", what, got, want)
			return
		}
	}
}

func route(d kernels.Device, logits []float32, rows, k int, normalize bool) ([]int32, []float32) {
	o := Route{Logits: kernels.FromFloat32s(d, rows, len(logits)/rows, logits), K: k,
		Normalize: normalize,
		IDs:       kernels.NewTensor(d, kernels.I32, rows, k),
		Weights:   kernels.NewTensor(d, kernels.F32, rows, k)}
	run(d, &o)
	return o.IDs.Int32s(), o.Weights.Float32s()
}

// TestRouteByHand has the exponentials 1, 2, 2, 4 with the sum 9. Experts 1 and 2 tie, so the lower
// comes first. The largest three probabilities sum to 8/9.
func TestRouteByHand(t *testing.T) {
	ln2 := float32(math.Ln2)
	onEach(t, func(t *testing.T, d kernels.Device) {
		ids, weights := route(d, []float32{0, ln2, ln2, 2 * ln2}, 1, 3, false)
		if !slices.Equal(ids, []int32{3, 1, 2}) {
			t.Errorf("got experts %v, expected 3 1 2", ids)
		}
		expect(t, "probabilities", weights, []float32{4. / 9, 2. / 9, 2. / 9})
		_, weights = route(d, []float32{0, ln2, ln2, 2 * ln2}, 1, 3, true)
		expect(t, "normalized", weights, []float32{4. / 8, 2. / 8, 2. / 8})
		o := Route{Logits: kernels.FromFloat32s(d, 1, 4, []float32{0, ln2, ln2, 2 * ln2}), K: 3,
			Normalize: true, Scale: kernels.FromFloat32s(d, 1, 4, []float32{5, 3, -1, 7}),
			IDs:     kernels.NewTensor(d, kernels.I32, 1, 3),
			Weights: kernels.NewTensor(d, kernels.F32, 1, 3)}
		run(d, &o)
		expect(t, "scaled", o.Weights.Float32s(), []float32{28. / 8, 6. / 8, -2. / 8})
	})
}

// TestRouteSigmoidByHand has the sigmoids 1/2, 2/3, 3/4 and 4/5. The bias makes expert 0 the first
// and expert 3 the last, and does not change the weights.
func TestRouteSigmoidByHand(t *testing.T) {
	log := func(x float64) float32 { return float32(math.Log(x)) }
	onEach(t, func(t *testing.T, d kernels.Device) {
		logits := []float32{0, log(2), log(3), log(4)}
		o := Route{Logits: kernels.FromFloat32s(d, 1, 4, logits), K: 3, Sigmoid: true,
			IDs:     kernels.NewTensor(d, kernels.I32, 1, 3),
			Weights: kernels.NewTensor(d, kernels.F32, 1, 3)}
		run(d, &o)
		if ids := o.IDs.Int32s(); !slices.Equal(ids, []int32{3, 2, 1}) {
			t.Errorf("got experts %v, expected 3 2 1", ids)
		}
		expect(t, "sigmoids", o.Weights.Float32s(), []float32{4. / 5, 3. / 4, 2. / 3})
		o.Bias = kernels.FromFloat32s(d, 1, 4, []float32{1, 0, 0, -0.5})
		run(d, &o)
		if ids := o.IDs.Int32s(); !slices.Equal(ids, []int32{0, 2, 1}) {
			t.Errorf("with a bias: got experts %v, expected 0 2 1", ids)
		}
		expect(t, "with a bias", o.Weights.Float32s(), []float32{1. / 2, 3. / 4, 2. / 3})
		o.Normalize, o.Epsilon = true, 1./12 // of a sum of 23/12
		run(d, &o)
		expect(t, "normalized", o.Weights.Float32s(), []float32{1. / 4, 3. / 8, 1. / 3})
	})
}

// TestRouteGroupsByHand has three groups of two experts. With sigmoids, group 2 has the largest
// sum, 3/4 + 3/4, then group 0 with 4/5 + 1/2, although the bias makes expert 2 of group 1 the
// largest, 9/10. With a softmax, group 1 has the largest expert, 4/17, and then the lower of two
// equals.
func TestRouteGroupsByHand(t *testing.T) {
	log := func(x float64) float32 { return float32(math.Log(x)) }
	onEach(t, func(t *testing.T, d kernels.Device) {
		o := Route{K: 3, Sigmoid: true, Groups: 3, TopGroups: 2,
			Logits: kernels.FromFloat32s(d, 1, 6, []float32{log(4), 0, 0, log(0.25), log(3),
				log(3)}),
			Bias:    kernels.FromFloat32s(d, 1, 6, []float32{0, 0, 0.4, 0, 0, 0}),
			IDs:     kernels.NewTensor(d, kernels.I32, 1, 3),
			Weights: kernels.NewTensor(d, kernels.F32, 1, 3)}
		run(d, &o)
		if ids := o.IDs.Int32s(); !slices.Equal(ids, []int32{0, 4, 5}) {
			t.Errorf("sigmoids: got experts %v, expected 0 4 5", ids)
		}
		expect(t, "sigmoids", o.Weights.Float32s(), []float32{4. / 5, 3. / 4, 3. / 4})
		o.Sigmoid, o.Bias = false, kernels.Tensor{}
		o.Logits = kernels.FromFloat32s(d, 1, 6, []float32{log(3), log(3), log(4), 0, log(3),
			log(3)})
		run(d, &o)
		if ids := o.IDs.Int32s(); !slices.Equal(ids, []int32{2, 0, 1}) {
			t.Errorf("softmax: got experts %v, expected 2 0 1", ids)
		}
		expect(t, "softmax", o.Weights.Float32s(), []float32{4. / 17, 3. / 17, 3. / 17})
	})
}

// TestRouteTies checks that the lowest of equal experts comes first, however many there are.
func TestRouteTies(t *testing.T) {
	onEach(t, func(t *testing.T, d kernels.Device) {
		for _, e := range []int{1, 15, 16, 17, 100, 512} {
			k := min(e, MaxChosen)
			logits := make([]float32, e)
			for i := range logits {
				logits[i] = -3
			}
			ids, weights := route(d, logits, 1, k, true)
			for j := range k {
				if ids[j] != int32(j) || math.Abs(float64(weights[j])*float64(k)-1) > 1e-6 {
					t.Errorf(
						"%d equal experts: got %v with %v, expected the first %d with 1/%d each", e,
						ids, weights, k, k)
					break
				}
			}
		}
	})
}

// TestRouteNaN checks that IDs are valid for any logits, because they index memory.
func TestRouteNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	onEach(t, func(t *testing.T, d kernels.Device) {
		for _, x := range []float32{nan, inf, -inf} {
			for i := range 5 + 20 { // the first 1 to 5 of 5 experts, then the first 1 to 20 of 20
				e, bad := 5, i+1
				if i >= 5 {
					e, bad = 20, i-4
				}
				logits := make([]float32, e)
				for i := range bad {
					logits[i] = x
				}
				ids, _ := route(d, logits, 1, 5, true)
				o := Route{Logits: kernels.FromFloat32s(d, 1, e, logits), K: 5, Sigmoid: true,
					Bias:    kernels.FromFloat32s(d, 1, e, logits),
					IDs:     kernels.NewTensor(d, kernels.I32, 1, 5),
					Weights: kernels.NewTensor(d, kernels.F32, 1, 5)}
				if i%2 == 0 {
					o.Groups, o.TopGroups = e/5, min(e/5, 2)
				}
				run(d, &o)
				for _, id := range append(o.IDs.Int32s(), ids...) {
					if id < 0 || int(id) >= e {
						t.Fatalf("logits %v: got experts %v and %v of %d", logits, ids,
							o.IDs.Int32s(), e)
					}
				}
			}
		}
	})
}

// TestCombineByHand adds shared = (4, 6) to 2*(1, 10) + 3*(100, 1000) = (302, 3020), and with a
// gate of sigmoid(0) = 1/2 only half of shared.
func TestCombineByHand(t *testing.T) {
	onEach(t, func(t *testing.T, d kernels.Device) {
		o := Combine{Experts: kernels.FromFloat32s(d, 2, 2, []float32{1, 10, 100, 1000}),
			Weights: kernels.FromFloat32s(d, 1, 2, []float32{2, 3}),
			Out:     kernels.NewTensor(d, kernels.F32, 1, 2)}
		run(d, &o)
		expect(t, "experts", o.Out.Float32s(), []float32{302, 3020})
		o.Shared = kernels.FromFloat32s(d, 1, 2, []float32{4, 6})
		run(d, &o)
		expect(t, "with shared", o.Out.Float32s(), []float32{306, 3026})
		o.SharedGate = kernels.NewTensor(d, kernels.F32, 1, 1)
		run(d, &o)
		expect(t, "with gated shared", o.Out.Float32s(), []float32{304, 3023})
		// 2*(1+5, 10+6) + 3*(100, 1000) = (312, 3032): expert 3 does not exist.
		o.Bias = kernels.FromFloat32s(d, 3, 2, []float32{7, 7, 5, 6, 7, 7})
		o.IDs = kernels.NewTensor(d, kernels.I32, 1, 2)
		copy(o.IDs.Int32s(), []int32{1, 3})
		run(d, &o)
		expect(t, "with biases", o.Out.Float32s(), []float32{314, 3035})
	})
}

// TestClampedSwiGLUByHand has an alpha of ln 3, so that sigmoid(alpha) is 3/4 and sigmoid(2*alpha)
// is 9/10. Row 0 has the biases of expert 1. Its columns are gate 1 and up 2, then both above the
// limit, then up below it, then gate 0. The expert of row 1 does not exist.
func TestClampedSwiGLUByHand(t *testing.T) {
	nan := float32(math.NaN())
	onEach(t, func(t *testing.T, d kernels.Device) {
		o := ClampedSwiGLU{
			Gate:     kernels.FromFloat32s(d, 2, 5, []float32{2, 8, 1, 1, nan, 1, 1, 1, 1, 1}),
			Up:       kernels.FromFloat32s(d, 2, 5, []float32{2, 8, -9, 2, 1, 1, 1, 1, 1, nan}),
			IDs:      kernels.NewTensor(d, kernels.I32, 1, 2),
			GateBias: kernels.FromFloat32s(d, 2, 5, []float32{9, 9, 9, 9, 9, -1, -1, 0, -1, 0}),
			UpBias:   kernels.FromFloat32s(d, 2, 5, []float32{9, 9, 9, 9, 9, 0, 1, 1, 0, 0}),
			Limit:    2, Alpha: float32(math.Log(3)), Out: kernels.NewTensor(d, kernels.F32, 2, 5)}
		for _, id := range []int32{2, -1} {
			copy(o.IDs.Int32s(), []int32{1, id})
			run(d, &o)
			expect(t, "row 0", o.Out.Row(0)[:4], []float32{1 * 3. / 4 * 3, 2 * 9. / 10 * 3,
				1 * 3. / 4 * -1, 0})
			for i, x := range append(o.Out.Row(1), o.Out.Row(0)[4]) {
				if x == x {
					t.Errorf("element %d without an expert, or of a NaN: got %g, expected NaN", i,
						x)
				}
			}
		}
	})
}

// TestTokenAloneOrInBatch checks that a token gives the same bits alone and in a batch.
func TestTokenAloneOrInBatch(t *testing.T) {
	const m, e, k, h = 9, 40, 6, 1030
	for _, d := range kerneltest.Devices(t) {
		r := rand.New(rand.NewPCG(3, 4))
		logits, experts := kernels.RandomTensor(d, r, m, e, 2),
			kernels.RandomTensor(d, r, m*k, h, 1)
		shared, gate := kernels.RandomTensor(d, r, m, h, 1), kernels.RandomTensor(d, r, m, 1, 1)
		bias, up := kernels.RandomTensor(d, r, e, h, 1), kernels.RandomTensor(d, r, m*k, h, 1)
		both := func(from, to int) (ids, weights, acted, out kernels.Tensor) {
			n := to - from
			ids, weights, out = kernels.NewTensor(d, kernels.I32, n, k),
				kernels.NewTensor(d, kernels.F32, n, k), kernels.NewTensor(d, kernels.F32, n, h)
			acted = kernels.NewTensor(d, kernels.F32, n*k, h)
			run(d, &Route{Logits: logits.RowRange(from, to), K: k, Normalize: true, IDs: ids,
				Weights: weights})
			run(d, &ClampedSwiGLU{Gate: experts.RowRange(from*k, to*k),
				Up: up.RowRange(from*k, to*k), IDs: ids, GateBias: bias, UpBias: bias, Limit: 1,
				Alpha: 1.702, Out: acted})
			run(d, &Combine{Experts: acted, Weights: weights, Shared: shared.RowRange(from, to),
				SharedGate: gate.RowRange(from, to), Bias: bias, IDs: ids, Out: out})
			return
		}
		ids, weights, acted, out := both(0, m)
		for i := range m {
			oneIDs, oneWeights, oneActed, oneOut := both(i, i+1)
			for j, pair := range [][2]kernels.Tensor{{oneIDs, ids}, {oneWeights, weights},
				{oneActed, acted.Reshape(m, k*h)}, {oneOut, out}} {
				if !bytes.Equal(pair[0].Bytes(), pair[1].RowRange(i, i+1).Bytes()) {
					t.Errorf("%s: token %d: %s differ from those in the batch", d.Name(), i,
						[]string{"ids", "weights", "activations", "outputs"}[j])
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	d := kernels.NewDryRun()
	tensor := func(rows, cols int) kernels.Tensor {
		return kernels.NewTensor(d, kernels.F32, rows, cols)
	}
	ids := func(rows, cols int) kernels.Tensor {
		return kernels.NewTensor(d, kernels.I32, rows, cols)
	}
	swiglu := func(ids, bias kernels.Tensor, limit float32) kernels.Op {
		return &ClampedSwiGLU{Gate: tensor(4, 8), Up: tensor(4, 8), IDs: ids, GateBias: bias,
			UpBias: bias, Limit: limit, Alpha: 1, Out: tensor(4, 8)}
	}
	grouped := func(groups, top, k int) kernels.Op {
		return &Route{Logits: tensor(2, 8), K: k, Sigmoid: true, Groups: groups, TopGroups: top,
			IDs: ids(2, k), Weights: tensor(2, k)}
	}
	for _, c := range []struct {
		op   kernels.Op
		want string // part of the error, "" for none
	}{
		{&Route{Logits: tensor(2, 8), K: 2, IDs: ids(2, 2), Weights: tensor(2, 2)}, ""},
		{&Route{Logits: tensor(2, 8), K: 2, Bias: tensor(1, 8), IDs: ids(2, 2),
			Weights: tensor(2, 2)}, ""},
		{&Route{Logits: tensor(2, 8), K: 9, IDs: ids(2, 9), Weights: tensor(2, 9)},
			"k: got 9 of 8"},
		{&Route{Logits: tensor(2, 513), K: 2, IDs: ids(2, 2), Weights: tensor(2, 2)}, "513"},
		{&Route{Logits: tensor(2, 64), K: 17, IDs: ids(2, 17), Weights: tensor(2, 17)}, "17"},
		{&Route{Logits: tensor(2, 8), K: 2, IDs: tensor(2, 2), Weights: tensor(2, 2)}, "ids"},
		{&Route{Logits: tensor(2, 8), K: 2, IDs: ids(2, 2), Weights: tensor(2, 4).Columns(0, 2)},
			"contiguous"},
		{&Route{Logits: tensor(2, 8), K: 2, Bias: tensor(1, 7), IDs: ids(2, 2),
			Weights: tensor(2, 2)}, "bias"},
		{&Route{Logits: tensor(2, 8), K: 2, Sigmoid: true, Bias: tensor(1, 7), IDs: ids(2, 2),
			Weights: tensor(2, 2)}, "bias"},
		{grouped(4, 1, 2), ""},
		{grouped(3, 1, 2), "3 of 8"},
		{grouped(0, 1, 2), "0 of 8"},
		{grouped(8, 2, 2), "one expert"},
		{grouped(4, 1, 3), "at least 3"},
		{grouped(4, 5, 2), "5 of 4"},
		{&Combine{Experts: tensor(4, 8), Weights: tensor(2, 2), Out: tensor(2, 8)}, ""},
		{&Combine{Experts: tensor(3, 8), Weights: tensor(2, 2), Out: tensor(2, 8)}, "experts"},
		{&Combine{Experts: tensor(4, 8), Weights: tensor(2, 2), Out: tensor(2, 8),
			SharedGate: tensor(2, 1)}, "without a shared expert"},
		{&Combine{Experts: tensor(4, 8), Weights: tensor(2, 2), Out: tensor(2, 8),
			Shared: tensor(2, 7)}, "shared"},
		{&Combine{Experts: tensor(4, 8), Weights: tensor(2, 2), Out: tensor(2, 8),
			Bias: tensor(3, 8), IDs: ids(2, 2)}, ""},
		{&Combine{Experts: tensor(4, 8), Weights: tensor(2, 2), Out: tensor(2, 8),
			Bias: tensor(3, 8)}, "ids"},
		{&Combine{Experts: tensor(4, 8), Weights: tensor(2, 2), Out: tensor(2, 8),
			Bias: tensor(3, 7), IDs: ids(2, 2)}, "bias"},
		{swiglu(ids(2, 2), tensor(3, 8), 7), ""},
		{swiglu(ids(2, 1), tensor(3, 8), 7), "ids"},
		{swiglu(ids(2, 2), tensor(3, 7), 7), "gate bias"},
		{swiglu(ids(2, 2), tensor(3, 9).Columns(0, 8), 7), "contiguous"},
		{swiglu(ids(2, 2), tensor(3, 8), 0), "limit"},
	} {
		err := c.op.Check()
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, expected one with %q", c.op.Name(), err, c.want)
		}
	}
}

// TestMetalMatchesCPUBits checks that ClampedSwiGLU and Combine on Metal give the bits of the CPU's
// kernels, with four columns at a time and with one.
func TestMetalMatchesCPUBits(t *testing.T) {
	const m, e, k, h = 3, 7, 5, 1028
	devices := kerneltest.Devices(t)
	var want [2][]byte
	for _, d := range devices[1:] { // the first is Go, in float64
		for _, gap := range []int{0, 1} { // with a gap rows are not aligned
			r := rand.New(rand.NewPCG(1, 2))
			experts, weights := kernels.RandomTensor(d, r, m*k, h, 1),
				kernels.RandomTensor(d, r, m, k, 1)
			shared, gate := kernels.RandomTensor(d, r, m, h, 1), kernels.RandomTensor(d, r, m, 1, 2)
			up, bias := kernels.RandomTensor(d, r, m*k, h, 4), kernels.RandomTensor(d, r, e, h, 4)
			ids := kernels.NewTensor(d, kernels.I32, m, k)
			for i := range ids.Int32s() {
				ids.Int32s()[i] = r.Int32N(e)
			}
			acted := kernels.NewTensor(d, kernels.F32, m*k, h+gap).Columns(0, h)
			run(d, &ClampedSwiGLU{Gate: experts, Up: up, IDs: ids, GateBias: bias, UpBias: bias,
				Limit: 3, Alpha: 1.702, Out: acted})
			out := kernels.NewTensor(d, kernels.F32, m, h+gap).Columns(0, h)
			for i, o := range []Combine{
				{Experts: experts, Weights: weights, Shared: shared, SharedGate: gate},
				{Experts: acted, Weights: weights, Bias: bias, IDs: ids},
			} {
				o.Out = out
				run(d, &o)
				if got := kerneltest.Elements(out); want[i] == nil {
					want[i] = got
				} else if !bytes.Equal(got, want[i]) {
					t.Errorf("%s, gap %d, %d: bits differ from %s", d.Name(), gap, i,
						devices[1].Name())
				}
			}
		}
	}
}
