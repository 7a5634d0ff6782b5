package golden

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/kernels"
)

// TestInputs checks that every case has a vector, and that its operands have the same bits on this
// machine as on the machine that made the vectors.
func TestInputs(t *testing.T) {
	for _, f := range Families() {
		vectors, err := Load(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if len(vectors) != len(f.Cases) {
			t.Errorf("%s: %d vectors for %d cases: run go test ./kernels/golden -update", f.Name,
				len(vectors), len(f.Cases))
		}
		short := 0
		for _, c := range f.Cases {
			v, ok := vectors[c.Name]
			if !ok {
				t.Errorf("%s: no vector for %s: run go test ./kernels/golden -update", f.Name,
					c.Name)
				continue
			}
			if v.Short {
				short++
			}
			if testing.Short() && !v.Short {
				continue // large cases are slow under emulation
			}
			if got := Inputs(c); got != v.Inputs {
				t.Errorf("%s: operands have checksum %08x, %08x where the vectors were made",
					c.Name, got, v.Inputs)
			}
		}
		if short == 0 {
			t.Errorf("%s: no case is in the short form", f.Name)
		}
	}
	if _, err := Load("astrology"); err == nil || !strings.Contains(err.Error(), "-update") {
		t.Errorf("got %v for an unknown family, expected an error that says what to do", err)
	}
}

// TestCompare checks that the answers of the reference match the vectors, and that a small error in
// any element does not.
func TestCompare(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	float := func(r *Run, i int) *float32 { return &r.outputs[0].Float32s()[i] }
	for _, x := range []struct {
		family, op string
		spoil      func(r *Run)
		want       string // part of the error; "" for none
	}{
		{"norm", "rms_norm", func(*Run) {}, ""},
		{"norm", "rms_norm", func(r *Run) { *float(r, 1) += 0.01 }, "add up to"},
		{"norm", "rms_norm", func(r *Run) { *float(r, partsOf(256).sample(3)) += 1e-4 },
			"element "},
		{"norm", "rms_norm", func(r *Run) { *float(r, 255) = float32(math.NaN()) },
			"add up to NaN"},
		{"norm", "rms_norm", func(r *Run) { r.outputs = append(r.outputs, r.outputs[0]) },
			"another version of the case"},
		{"transfer", "copy", func(*Run) {}, ""},
		{"transfer", "copy", func(r *Run) { r.outputs[0].Buffer.Bytes[0] ^= 1 },
			"must be equal"},
		{"activation", "add", func(*Run) {}, ""},
		{"activation", "add", func(r *Run) {
			x := float(r, partsOf(r.outputs[0].Cols).sample(0))
			*x = math.Nextafter32(*x, 9)
		}, "must be equal"},
	} {
		c, v := firstOf(t, x.family, d, x.op)
		r, err := Prepare(d, c)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // again with new operands
			if err := r.Compute(); err != nil {
				t.Fatal(err)
			}
		}
		x.spoil(r)
		same, err := r.Compare(c, v)
		switch {
		case x.want == "" && (err != nil || !same && Portable(r.Op())):
			t.Errorf("%s: same bits %t, %v; expected no error", c.Name, same, err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s: got %v, expected an error with %q", c.Name, err, x.want)
		}
	}
}

// firstOf returns the first case of an operator.
func firstOf(t *testing.T, family string, d kernels.Device, op string) (kernels.Case, Vector) {
	t.Helper()
	vectors, err := Load(family)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Families() {
		for i := 0; f.Name == family && i < len(f.Cases); i++ {
			c := f.Cases[i]
			if o, _ := c.New(d, c.Rand()); o.Name() == op {
				return c, vectors[c.Name]
			}
		}
	}
	t.Fatalf("no case of %s", op)
	return kernels.Case{}, Vector{}
}

// TestFamilies checks that Families has every folder of kernels with cases.
func TestFamilies(t *testing.T) {
	var want, got []string
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc Cases() []kernels.Case") {
			want = append(want, filepath.Base(filepath.Dir(f)))
		}
	}
	for _, f := range Families() {
		got = append(got, f.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("families %v, folders with cases %v: add what is missing to Families, and run "+
			"go test ./kernels/golden -update", got, want)
	}
}

func TestTolerances(t *testing.T) {
	d := kernels.NewReference()
	defer d.Close()
	known := map[string]bool{}
	for _, f := range Families() {
		for _, c := range f.Cases {
			if c.Bytes+c.Flops > 1<<22 {
				continue
			}
			op, _ := c.New(d, c.Rand())
			known[op.Name()] = true
			if got := ToleranceOf(c, op); got.Abs > 2e-3 && op.Name() != "read" || got.Rel > 1e-4 {
				t.Errorf("%s: tolerance %g + %g*|x| is too wide", c.Name, got.Abs, got.Rel)
			}
		}
	}
	for _, op := range portable {
		if !known[op] {
			t.Errorf("%s is listed as portable, but no case has this operator", op)
		}
	}
	for op := range onMetal {
		if !known[op] {
			t.Errorf("%s has a tolerance on Metal, but no case has this operator", op)
		}
	}
}
