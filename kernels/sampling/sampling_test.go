package sampling

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }
func BenchmarkNV(b *testing.B)    { kerneltest.BenchNV(b, kerneltest.Timings(Cases())) }

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }

// TestChooserEqualsSorting compares Chooser with the reference, which sorts the row, for rows of
// many lengths and all kinds of settings.
func TestChooserEqualsSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	c := new(Chooser)
	for trial := range 3000 {
		n := 1 + r.IntN(3000)
		logits := make([]float32, n)
		scale := []float64{0, 0.01, 1, 5, 60, 1e38}[trial%6]
		for i := range logits {
			logits[i] = float32(r.NormFloat64()*scale + 3)
			if trial%3 == 0 { // integral values, so that there are many ties
				logits[i] = float32(math.Round(float64(logits[i])))
			}
			if math.IsInf(float64(logits[i]), 1) || r.IntN(20) == 0 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		s := settingsOf(trial/6, r)
		if want, got := bySorting(logits, s), c.Choose(logits, s).Token; got != want {
			t.Fatalf("trial %d, %+v, %d logits of scale %v: got token %d, expected %d", trial, s, n,
				scale, got, want)
		}
	}
}

// TestArgmax compares every instruction set with plain Go, including ties, zeros of both signs,
// rows without a finite logit, and faults.
func TestArgmax(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	odd := []float32{-inf, 0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32,
		-math.MaxFloat32, 1e-44, -1e-44, inf, nan, -nan, math.Float32frombits(0xffc00000)}
	r := rand.New(rand.NewPCG(7, 8))
	for trial := range 4000 {
		row := make([]float32, r.IntN(4)*argmaxBlock+r.IntN(40))
		for i := range row {
			switch trial % 4 {
			case 0: // few values, most of them finite
				row[i] = odd[r.IntN(9)]
			case 1:
				row[i] = float32(r.NormFloat64())
			case 2: // all negative or zero, or all -Inf
				row[i] = []float32{-inf, -float32(r.IntN(3))}[trial/4%2]
			case 3:
				row[i] = float32(math.Round(r.NormFloat64()))
			}
		}
		if trial%5 == 0 && len(row) > 0 {
			row[r.IntN(len(row))] = odd[r.IntN(len(odd))]
		}
		want := plainArgmax(row)
		for _, isa := range cpu.Available()[1:] {
			got := int32(nativeArgmaxBlock(isa, row))
			if got >= 0 {
				got += plainArgmax(row[got:min(int(got)+argmaxBlock, len(row))])
			}
			if got != want && !(got < 0 && want < 0) {
				t.Fatalf("trial %d, %d logits, %s: got %d, expected %d", trial, len(row), isa, got,
					want)
			}
		}
	}
}

func BenchmarkArgmax(b *testing.B) {
	row := make([]float32, 151936)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range row {
		row[i] = float32(r.NormFloat64())
	}
	for name, f := range map[string]func([]float32) int32{"native": argmax, "plain": plainArgmax} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				f(row)
			}
		})
	}
}

// TestParts checks on a GPU that the token of a row does not depend on how the row is split into
// parts, also if filters end among equal logits of several parts.
func TestParts(t *testing.T) {
	d := kerneltest.Metal(t)
	const vocab = 1500
	r := rand.New(rand.NewPCG(9, 10))
	o := &Choose{Logits: kernels.NewTensor(d, kernels.F32, 24, vocab)}
	o.Out = kernels.NewTensor(d, kernels.I32, o.Logits.Rows, 1)
	var want []int32
	for m := range o.Logits.Rows {
		x, s := o.Logits.Row(m), settingsOf(m, r)
		for i := range x {
			if x[i] = float32(math.Round(r.NormFloat64())); i < 3*m {
				x[i] = float32(math.Inf(-1))
			}
		}
		if m >= 16 { // filters end among about 600 equal logits after the first 100
			s = Settings{Temperature: 3, TopK: 150 + 50*(m-16), Random: r.Uint64()}
			if m%2 == 0 {
				s.TopK, s.TopP = 0, 0.3+0.1*float32(m-16)/2
			}
		}
		o.Rows = append(o.Rows, s)
		want = append(want, bySorting(x, s))
	}
	for _, o.partTokens = range []int{0, 24, 97, 749, 1499, 1500} {
		d.Run(o)
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := o.Out.Int32s(); !slices.Equal(got, want) {
			t.Errorf("parts of %d tokens: got %v, expected %v", o.partTokens, got, want)
		}
	}
}

// TestExtremes covers extreme settings and logits, including NaN and +Inf, on every device.
func TestExtremes(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	rows := [][4]float32{
		{1, 2, 3, 4}, {nan, 1, inf, 2}, {1, inf, nan, 2}, {-inf, -inf, -inf, -inf},
		{-inf, -3, -inf, -inf}, {4, 3, 2, -nan},
		{math.MaxFloat32, -math.MaxFloat32, 0, 1},
		{-math.MaxFloat32, -math.MaxFloat32, -math.MaxFloat32, -inf}, {1e-45, 0, -1e-45, 0},
		{0, float32(math.Copysign(0, -1)), 0, -1}, {float32(math.Copysign(0, -1)), 0, -1, 0},
		{7, 7, 7, 7},
	}
	settings := []Settings{{}, {Temperature: 1}, {Temperature: 1e-45},
		{Temperature: math.MaxFloat32}, {Temperature: 1, TopP: 1e-12}, {Temperature: 1, MinP: 1},
		{Temperature: 1, MinP: 1e-45}, {Temperature: 2, TopK: 2},
		{Temperature: 1e30, TopK: 3, TopP: 0.999999}, {Temperature: 1, TopK: 1 << 40, TopP: 0.5}}
	for _, d := range kerneltest.Devices(t) {
		o := &Choose{Logits: kernels.NewTensor(d, kernels.F32, len(rows)*len(settings)*3, 4)}
		o.Out = kernels.NewTensor(d, kernels.I32, o.Logits.Rows, 1)
		for _, row := range rows {
			for _, s := range settings {
				for _, s.Random = range []uint64{0, 1 << 63, math.MaxUint64} {
					copy(o.Logits.Row(len(o.Rows)), row[:])
					o.Rows = append(o.Rows, s)
				}
			}
		}
		d.Run(o)
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		for i, got := range o.Out.Int32s() {
			if want := bySorting(o.Logits.Row(i), o.Rows[i]); got != want {
				t.Errorf("%s: %v with %+v: got %d, expected %d", d.Name(), o.Logits.Row(i),
					o.Rows[i], got, want)
			}
		}
	}
	if Fault(0) != nil || Fault(NoToken) == nil || Fault(FaultAt(0)) == nil {
		t.Error("Fault does not distinguish tokens from faults")
	}
}

// TestBoundaries checks for each token the smallest random number that selects it, and the largest
// that selects the previous token, on every device.
func TestBoundaries(t *testing.T) {
	const vocab = 40
	r := rand.New(rand.NewPCG(7, 8))
	logits, weights, total := make([]float32, vocab), make([]uint64, vocab), uint64(0)
	for i := range logits {
		logits[i] = r.Float32() * 9
	}
	for i, x := range logits {
		weights[i] = weight(slices.Max(logits)-x, (&Settings{Temperature: 0.7}).limits(vocab).scale)
		total += weights[i]
	}
	var rows []Settings
	var want []int32
	before := weights[0]
	for i := 1; i < vocab; i++ {
		least, rest := bits.Div64(before, 0, total)
		if rest > 0 {
			least++
		}
		rows = append(rows, Settings{Temperature: 0.7, Random: least - 1},
			Settings{Temperature: 0.7, Random: least})
		want = append(want, int32(i-1), int32(i))
		before += weights[i]
	}
	for _, d := range kerneltest.Devices(t) {
		o := &Choose{Logits: kernels.NewTensor(d, kernels.F32, len(rows), vocab), Rows: rows,
			Out: kernels.NewTensor(d, kernels.I32, len(rows), 1)}
		for m := range rows {
			copy(o.Logits.Row(m), logits)
		}
		d.Run(o)
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := o.Out.Int32s(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, expected %v", d.Name(), got, want)
		}
	}
}

// TestWeight compares weight with 2^-t within the precision of float32.
func TestWeight(t *testing.T) {
	if weight(0, 1) != UnitWeight || weight(0, math.MaxFloat32) != UnitWeight {
		t.Error("the weight of the most likely token is not UnitWeight")
	}
	for x := float32(0); x < 45; x += 0.00731 {
		want := math.Exp(-float64(x))
		got := float64(weight(x, log2e)) / UnitWeight
		if math.Abs(got-want) > 3e-6*want+1.0/UnitWeight {
			t.Fatalf("weight at distance %v: got %g, expected %g", x, got, want)
		}
	}
	for _, far := range []float32{1000, math.MaxFloat32, float32(math.Inf(1))} {
		if weight(far, log2e) != 0 {
			t.Errorf("weight at distance %g is not 0", far)
		}
	}
}

// TestMostLikely has probabilities that are known, and rows without a token, on every device.
func TestMostLikely(t *testing.T) {
	inf, ln2 := float32(math.Inf(1)), float32(math.Ln2)
	for _, d := range kerneltest.Devices(t) {
		rows := []struct {
			logits      [3]float32
			token       int32
			probability float64
		}{
			{[3]float32{0, ln2, 0}, 1, 0.5}, {[3]float32{5, 5, 5}, 0, 1. / 3},
			{[3]float32{-inf, -7, -inf}, 1, 1}, {[3]float32{-1e30, -ln2, 0}, 2, 2. / 3},
			{[3]float32{-inf, -inf, -inf}, 0, 0}, {[3]float32{1, inf, 2}, 0, 0},
			{[3]float32{1, 2, float32(math.NaN())}, 0, 0},
		}
		o := &Likeliest{Logits: kernels.NewTensor(d, kernels.F32, len(rows), 3),
			Out: kernels.NewTensor(d, kernels.I32, len(rows), LikeliestCols)}
		for i, r := range rows {
			copy(o.Logits.Row(i), r.logits[:])
		}
		for range 2 { // the second time, out has what the first time wrote
			d.Run(o)
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			token, probability := MostLikely(o.row(i))
			if token != r.token || math.Abs(probability-r.probability) > 1e-6 {
				t.Errorf("%s: %v: got token %d with probability %g, expected %d with %g", d.Name(),
					r.logits, token, probability, r.token, r.probability)
			}
		}
	}
}

// TestChecks expects errors for operands that would make a kernel read out of bounds.
func TestChecks(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	two, logits := kernels.NewTensor(d, kernels.I32, 2, 1), kernels.NewTensor(d, kernels.F32, 2, 9)
	four := kernels.NewTensor(d, kernels.I32, 2, 6)
	for _, c := range []struct {
		op kernels.Op
		ok bool
	}{
		{&Feed{Tokens: []int32{5, Placeholder(1)}, Chosen: two, Out: two}, true},
		{&Feed{Tokens: []int32{5, Placeholder(2)}, Chosen: two, Out: two}, false},
		{&Feed{Tokens: []int32{5, Placeholder(0)}, Out: two}, false},
		{&Feed{Tokens: []int32{5, 1 << 30}, Out: two}, true},
		{&Feed{Tokens: []int32{5}, Out: two}, false},
		{&Adjust{Logits: logits, Rows: []Adjustment{{Chosen: -1}, {Chosen: -1}}}, true},
		{&Adjust{Logits: logits, Rows: []Adjustment{{Chosen: 0}, {Chosen: -1}}}, false},
		{&Adjust{Logits: logits, Rows: []Adjustment{{Chosen: 0}, {Chosen: 1}}, Chosen: two}, true},
		{&Adjust{Logits: logits, Rows: []Adjustment{{Chosen: 2}, {Chosen: -1}}, Chosen: two},
			false},
		{&Adjust{Logits: logits, Rows: []Adjustment{{Chosen: -2}, {Chosen: -1}}, Chosen: two},
			false},
		{&Choose{Logits: logits, Rows: make([]Settings, 2), Out: two}, true},
		{&Choose{Logits: logits, Rows: make([]Settings, 1), Out: two}, false},
		{&Choose{Logits: kernels.Tensor{Buffer: &kernels.Buffer{Size: 1 << 30}, DType: kernels.F32,
			Rows: 2, Cols: 1<<23 + 1, Stride: 1<<23 + 1}, Rows: make([]Settings, 2), Out: two},
			false},
		{&Likeliest{Logits: logits, Out: four.Columns(2, 6)}, true},
		{&Likeliest{Logits: logits, Out: four.Columns(1, 5)}, false},
		{&Likeliest{Logits: logits, Out: four}, false},
	} {
		if err := c.op.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %+v: got error %v, expected none: %t", c.op.Name(), c.op, err, c.ok)
		}
	}
}
