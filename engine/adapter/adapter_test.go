package adapter

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine/ops"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// tensor returns a float32 tensor of the given shape with small values.
func tensor(name string, shape ...int) safetensors.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i%7)-3))
	}
	return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape, Data: data}
}

func notFinite(t safetensors.Tensor) safetensors.Tensor {
	binary.LittleEndian.PutUint32(t.Data[4:], math.Float32bits(float32(math.NaN())))
	return t
}

func typed(t safetensors.Tensor, d safetensors.DType) safetensors.Tensor {
	t.DType = d
	return t
}

// write writes the adapter's files to a new folder.
func write(t testing.TB, config, name string, tensors ...safetensors.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, nil); err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{configName: []byte(config), name: b.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	mlxLoRA = `{"fine_tune_type": "lora", "lora_parameters": {"rank": 2, "scale": 20.0}}`
	mlxDoRA = `{"fine_tune_type": "dora", "lora_parameters": {"rank": 2, "scale": 2.0}}`
	peft    = `{"peft_type": "LORA", "r": 2, "lora_alpha": 8, "base_model_name_or_path": "o/b"}`
)

// TestReadFaults reads adapters with faults. Each error says what is wrong.
func TestReadFaults(t *testing.T) {
	type list = []safetensors.Tensor
	a, b := tensor("x.lora_a", 8, 2), tensor("x.lora_b", 2, 6)
	ofRank := func(r int) list {
		return list{tensor("x.lora_a", 8, r), tensor("x.lora_b", r, 6)}
	}
	pa, pb := tensor("base_model.model.x.lora_A.weight", 2, 8),
		tensor("base_model.model.x.lora_B.weight", 6, 2)
	with := func(key string) string { return strings.Replace(peft, `"r"`, key+`, "r"`, 1) }
	for name, c := range map[string]struct {
		config  string
		file    string
		tensors list
		want    string
	}{
		"no tensors":   {mlxLoRA, mlxName, nil, "no tensors"},
		"no config":    {`[]`, mlxName, list{a, b}, configName},
		"no scale":     {`{"lora_parameters": {}}`, mlxName, nil, "lora_parameters.scale"},
		"full":         {`{"fine_tune_type": "full"}`, mlxName, nil, "it has whole layers"},
		"another kind": {`{"fine_tune_type": "x"}`, mlxName, nil, "expected lora or dora"},
		"one half":     {mlxLoRA, mlxName, list{a}, "expected both"},
		"other ranks": {mlxLoRA, mlxName, list{a,
			tensor("x.lora_b", 3, 6)}, "8 x 2"},
		"no rank":    {mlxLoRA, mlxName, ofRank(0), "rank 0"},
		"large rank": {mlxLoRA, mlxName, ofRank(1025), "rank 1025"},
		"one dimension": {mlxLoRA, mlxName, list{
			tensor("x.lora_a", 16), b}, "expected in x r"},
		"no columns": {mlxLoRA, mlxName, list{a,
			tensor("x.lora_b", 2, 0)}, "dimension of 0"},
		"NaN": {mlxLoRA, mlxName, list{a,
			notFinite(tensor("x.lora_b", 2, 6))}, "not a finite"},
		"another type": {mlxLoRA, mlxName, list{a, typed(b, safetensors.I32)}, "type I32"},
		"another tensor": {mlxLoRA, mlxName, list{a, b,
			tensor("x.weight", 2)}, "x.weight"},
		"no module":    {mlxLoRA, mlxName, list{tensor(".lora_a", 8, 2)}, "not a part"},
		"no magnitude": {mlxDoRA, mlxName, list{a, b}, "no magnitude"},
		"a magnitude":  {mlxLoRA, mlxName, list{a, b, tensor("x.m", 6)}, "not DoRA"},
		"huge scale": {`{"lora_parameters": {"scale": 1e300}}`, mlxName, list{a, b},
			"finite number"},
		"experts of other numbers": {mlxLoRA, mlxName, list{
			tensor("x.lora_a", 3, 2, 8),
			tensor("x.lora_b", 4, 6, 2)}, "expected experts"},
		"PEFT, another type": {strings.Replace(peft, "LORA", "IA3", 1), peftName, nil, "IA3"},
		"PEFT, transposed":   {with(`"fan_in_fan_out": true`), peftName, nil, "transposed"},
		"PEFT, PiSSA": {with(`"init_lora_weights": "pissa_niter_4"`), peftName, nil,
			"pissa"},
		"PEFT, aLoRA": {with(`"alora_invocation_tokens": [3]`), peftName, nil,
			"some tokens"},
		"PEFT, rank 0": {strings.Replace(peft, `"r": 2`, `"r": 0`, 1), peftName, nil,
			"r is 0"},
		"PEFT, no alpha": {strings.Replace(peft, "lora_alpha", "x", 1), peftName, nil,
			"lora_alpha"},
		"PEFT, a pattern": {with(`"alpha_pattern": {"(": 3}`), peftName, list{pa, pb},
			"alpha_pattern"},
		"PEFT, two A": {peft, peftName, list{pa, tensor("x.lora_A.weight", 2, 8), pb},
			"two tensors"},
		"PEFT, a bias": {peft, peftName, list{pa, pb,
			tensor("base_model.model.x.bias", 6)}, "x.bias"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(write(t, c.config, c.file, c.tensors...), 0)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, expected an error with %q", err, c.want)
			}
		})
	}
}

// TestReadLimit: 112 bytes of float32 are within a limit of 112.
func TestReadLimit(t *testing.T) {
	dir := write(t, mlxLoRA, mlxName, tensor("x.lora_a", 8, 2), tensor("x.lora_b", 2, 6))
	if _, err := Read(dir, 112); err != nil {
		t.Error(err)
	}
	if _, err := Read(dir, 111); err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("got %v, expected that it does not fit", err)
	}
}

// TestFit fits adapters of both formats to matrices, and compares what they add.
func TestFit(t *testing.T) {
	weight := func(n, k int) *kernels.Weight {
		values := make([]float32, n*k)
		for i := range values {
			values[i] = float32(i%5) - 2
		}
		return &kernels.Weight{Experts: 1, N: n, K: k,
			Data: kernels.FromFloat32s(kernels.NewDryRun(), n, k, values)}
	}
	w, q, v, table := weight(6, 8), weight(4, 8), weight(2, 8), weight(6, 8)
	m := Model{
		Linears: map[string][]*kernels.Weight{"model.x": {w}, "model.qv": {q, v},
			"model.embed_tokens": {table}, "model.unused": {weight(6, 8)}},
		Uses: map[*kernels.Weight]ops.Use{w: {Product: true}, q: {Product: true},
			v: {Product: true}, table: {Product: true, Lookup: true}},
	}
	read := func(config, file string, list ...safetensors.Tensor) *Fitted {
		t.Helper()
		a, err := Read(write(t, config, file, list...), 0)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Fit(a, m)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	// The same product: mlx-lm's matrices are the transposes of PEFT's.
	pa, pb := tensor("base_model.model.language_model.model.x.lora_A.weight", 2, 8),
		tensor("base_model.model.language_model.model.x.lora_B.weight", 6, 2)
	transpose := func(name string, x safetensors.Tensor) safetensors.Tensor {
		y := tensor(name, x.Shape[1], x.Shape[0])
		for r := range x.Shape[0] {
			for c := range x.Shape[1] {
				copy(y.Data[4*(c*x.Shape[0]+r):][:4], x.Data[4*(r*x.Shape[1]+c):])
			}
		}
		return y
	}
	p := read(strings.Replace(peft, `8,`, `40,`, 1), peftName, pa, pb).changes[w]
	l := read(mlxLoRA, mlxName, transpose("model.x.lora_a", pa), transpose("model.x.lora_b", pb)).
		changes[w]
	if !slices.Equal(p.a, l.a) || !slices.Equal(p.b, l.b) || p.b[0] != -3*20 {
		t.Errorf("PEFT adds %v and %v, mlx-lm %v and %v", p.a, p.b, l.a, l.b)
	}
	rs := read(strings.Replace(peft, `"r"`, `"use_rslora": true, "r"`, 1), peftName, pa, pb)
	if got := rs.changes[w].b[0]; got != float32(-3)*float32(8/math.Sqrt(2)) {
		t.Errorf("with rsLoRA B begins with %v", got)
	}
	own := read(strings.Replace(peft, `"r"`, `"alpha_pattern": {"x": 2}, "r"`, 1), peftName, pa, pb)
	if got := own.changes[w].b[0]; got != -3 {
		t.Errorf("with an alpha of its own B begins with %v, expected -3", got)
	}
	for range 20 { // the first pattern counts, as in PEFT
		two := read(strings.Replace(peft, `"r"`, `"alpha_pattern": {"x": 2, "x|y": 9}, "r"`, 1),
			peftName, pa, pb)
		if got := two.changes[w].b[0]; got != -3 {
			t.Fatalf("with two patterns B begins with %v, expected -3", got)
		}
	}
	both := read(mlxLoRA, mlxName, tensor("qv.lora_a", 8, 2), tensor("qv.lora_b", 2, 6))
	if a, b := both.changes[q], both.changes[v]; len(a.b) != 8 || len(b.b) != 4 ||
		&a.a[0] != &b.a[0] {
		t.Errorf("the parts of a fused module have %d and %d values", len(a.b), len(b.b))
	}
	head := read(mlxLoRA, mlxName, tensor("model.embed_tokens.lora_a", 6, 2),
		tensor("model.embed_tokens.lora_b", 2, 8)).changes[table]
	if !head.lookup || !head.product {
		t.Errorf("mlx-lm's embedding: %+v, expected lookups and products", head)
	}
	lookup := read(peft, peftName,
		tensor("base_model.model.model.embed_tokens.lora_embedding_A", 2, 6),
		tensor("base_model.model.model.embed_tokens.lora_embedding_B", 8, 2)).changes[table]
	if !lookup.lookup || lookup.product {
		t.Errorf("PEFT's embedding: %+v, expected lookups alone", lookup)
	}
	for name, list := range map[string][]safetensors.Tensor{
		"the model does not have": {tensor("y.lora_a", 8, 2), tensor("y.lora_b", 2, 6)},
		"another form":            {tensor("unused.lora_a", 8, 2), tensor("unused.lora_b", 2, 6)},
		"of shape 6 x 8":          {tensor("x.lora_a", 6, 2), tensor("x.lora_b", 2, 8)},
		"two of its modules": {tensor("x.lora_a", 8, 2), tensor("x.lora_b", 2, 6),
			tensor("model.x.lora_a", 8, 2), tensor("model.x.lora_b", 2, 6)},
	} {
		a, err := Read(write(t, mlxLoRA, mlxName, list...), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Fit(a, m); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, expected an error with %q", err, name)
		}
	}
}

// TestFitDoRA fits DoRA to an embedding in both formats: mlx-lm gives lengths to its rows, and PEFT
// to its columns. The sums are W + 2 B A with the values of tensor. Of experts, DoRA is refused.
func TestFitDoRA(t *testing.T) {
	const n, k = 6, 8
	values := make([]float32, n*k)
	for i := range values {
		values[i] = float32(i%5) - 2
	}
	table := &kernels.Weight{Experts: 1, N: n, K: k,
		Data: kernels.FromFloat32s(kernels.NewReference(), n, k, values)}
	experts := &kernels.Weight{Experts: 2, N: n, K: k}
	m := Model{Linears: map[string][]*kernels.Weight{"e": {table}, "x": {experts}},
		Uses: map[*kernels.Weight]ops.Use{table: {Product: true, Lookup: true},
			experts: {Product: true}}}
	value := func(i int) float64 { return float64(i%7) - 3 }
	lengths := func(rows, cols int, at func(i, j int) (row, col int), b func(row, r int) float64,
		a func(r, col int) float64) []float64 {
		out := make([]float64, rows)
		for i := range rows {
			for j := range cols {
				row, col := at(i, j)
				x := float64(values[row*k+col])
				for r := range 2 {
					x += 2 * b(row, r) * a(r, col)
				}
				out[i] += x * x
			}
			out[i] = math.Sqrt(out[i])
		}
		return out
	}
	check := func(name string, got []float32, want []float64) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %d factors, expected %d", name, len(got), len(want))
		}
		for i, x := range got {
			if y := value(i) / want[i]; math.Abs(float64(x)-y) > 1e-6 {
				t.Errorf("%s: factor %d is %g, expected %g", name, i, x, y)
			}
		}
	}
	fit := func(config, file string, list ...safetensors.Tensor) (*Fitted, error) {
		a, err := Read(write(t, config, file, list...), 0)
		if err != nil {
			t.Fatal(err)
		}
		return Fit(a, m)
	}
	f, err := fit(mlxDoRA, mlxName, tensor("e.lora_a", n, 2), tensor("e.lora_b", 2, k),
		tensor("e.m", n))
	if err != nil {
		t.Fatal(err)
	}
	c := f.changes[table]
	check("mlx-lm", c.factor, lengths(n, k, func(i, j int) (int, int) { return i, j },
		func(row, r int) float64 { return value(row*2 + r) },
		func(r, col int) float64 { return value(r*k + col) }))
	if len(c.ones) != k || c.ones[k-1] != 1 || c.columnFactor != nil {
		t.Errorf("mlx-lm: %d ones, and %d factors of columns", len(c.ones), len(c.columnFactor))
	}
	const dora = `{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_dora": true}`
	const name = "base_model.model.e.lora_"
	list := []safetensors.Tensor{tensor(name+"embedding_A", 2, n),
		tensor(name+"embedding_B", k, 2), tensor(name+"magnitude_vector.weight", k)}
	if f, err = fit(dora, peftName, list...); err != nil {
		t.Fatal(err)
	}
	c = f.changes[table]
	check("PEFT", c.columnFactor, lengths(k, n, func(i, j int) (int, int) { return j, i },
		func(row, r int) float64 { return value(r*n + row) },
		func(r, col int) float64 { return value(col*2 + r) }))
	if c.factor != nil || c.product {
		t.Error("PEFT's embedding has factors of rows, or changes products")
	}
	list[2] = tensor(name+"magnitude_vector.weight", n)
	if _, err := fit(dora, peftName, list...); err == nil ||
		!strings.Contains(err.Error(), "magnitudes of shape 6, expected 8") {
		t.Errorf("magnitudes of rows in PEFT: %v", err)
	}
	_, err = fit(mlxDoRA, mlxName, tensor("x.lora_a", 2, 2, k), tensor("x.lora_b", 2, n, 2),
		tensor("x.m", n))
	if err == nil || !strings.Contains(err.Error(), "experts x by DoRA, which mlx-lm and PEFT") {
		t.Errorf("DoRA of experts: %v", err)
	}
}

// FuzzRead reads any two files. What it accepts has modules whose matrices belong together.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := safetensors.Write(&b, []safetensors.Tensor{tensor("x.lora_a", 8, 2),
		tensor("x.lora_b", 2, 6)}, nil); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(mlxLoRA), b.Bytes())
	f.Add([]byte(mlxDoRA), b.Bytes())
	f.Add([]byte(peft), b.Bytes())
	f.Add([]byte(`{"peft_type":"LORA","r":1,"lora_alpha":1,"alpha_pattern":{"a*":2}}`), b.Bytes())
	f.Fuzz(func(t *testing.T, config, weights []byte) {
		dir := t.TempDir()
		for _, name := range []string{mlxName, peftName} {
			if err := os.WriteFile(filepath.Join(dir, name), weights, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, configName), config, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := Read(dir, 1<<20)
		if err != nil {
			return
		}
		for _, m := range a.Modules {
			if m.Rank < 1 || m.Rank > maxRank || len(m.A.Values) == 0 || len(m.B.Values) == 0 ||
				m.Scale-m.Scale != 0 {
				t.Fatalf("module %q: rank %d, %s and %s, scale %g", m.Name, m.Rank, m.A, m.B,
					m.Scale)
			}
		}
	})
}
