// Package adapter reads the adapters that fine-tuning writes, and fits them to a model.
//
// An adapter changes some modules of a model. To a matrix W [N, K] it adds a product of two small
// ones (LoRA, Hu et al. 2021), and DoRA (Liu et al. 2024) then gives each row a new length:
//
//	LoRA  W + s B A             with A [r, K] and B [N, r]
//	DoRA  m (W + s B A) / |W + s B A|    with m [N] and the length of each row
//
// Read reads a folder in one of two formats. None of it is trusted.
//
//	mlx-lm  adapters.safetensors: MODULE.lora_a [K, r], .lora_b [r, N] and .m; of stacked experts
//	        lora_a [E, r, K] and lora_b [E, N, r], without .m; of an embedding [N, K] lora_a
//	        [N, r], lora_b [r, K] and .m [N]. adapter_config.json has fine_tune_type and
//	        lora_parameters.scale.
//	        Source: mlx_lm/tuner/lora.py, dora.py and utils.py, version 0.32.
//	PEFT    adapter_model.safetensors: base_model.model.MODULE.lora_A.weight [r, K],
//	        .lora_B.weight [N, r] and .lora_magnitude_vector; of an embedding .lora_embedding_A
//	        [r, N] and .lora_embedding_B [K, r], whose DoRA gives lengths [K] to columns and not
//	        to rows. adapter_config.json has r, lora_alpha,
//	        use_rslora, alpha_pattern and use_dora. Source: peft/tuners/lora, version 0.18.
//
// What full fine-tuning writes is no adapter; full.go reads it for package convert.
//
// Fit finds the model's weights of the modules (fit.go). The engine then gives the operators what
// they add (ops.Adapter).
package adapter

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/safetensors"
	"headroom/kernels"
)

// Limits of an adapter. The largest known ones have rank 512 and 4,000 modules.
const (
	maxRank    = 1024
	maxModules = 1 << 16
	maxBytes   = 16 << 30 // of all values as float32, unless the caller has less
)

// The files of a folder.
const (
	configName = "adapter_config.json"
	mlxName    = "adapters.safetensors"
	peftName   = "adapter_model.safetensors"
)

// WeightFiles are the names of the files of weights, of which a folder has one. Files also has that
// of the config.
var (
	WeightFiles = []string{mlxName, peftName}
	Files       = []string{configName, mlxName, peftName}
)

// Adapter is the content of a folder.
type Adapter struct {
	Info
	Digest  [sha256.Size]byte // of everything that the answers of a model depend on
	Modules []Module          // sorted by name
}

// Module is what an adapter adds to one module of a model.
type Module struct {
	Name      string // of the module, without what the format adds
	A, B      Matrix // in the layout of the format
	Magnitude Matrix // [N], of DoRA, or [K] of PEFT's embeddings; no Values: it is LoRA
	Scale     float32
	Rank      int
	// Embedding says that PEFT made it for an embedding. mlx-lm does not say.
	Embedding bool
}

// Matrix is a tensor of the file as float32.
type Matrix struct {
	Shape  []int
	Values []float32
}

func (m Matrix) String() string { return safetensors.ShapeText(m.Shape...) }

// broken returns the Problem of an adapter whose files are not valid.
func broken(format string, args ...any) error {
	return problem.New(problem.ModelBroken, "The adapter's files are not valid",
		fmt.Sprintf(format, args...), "Train or download the adapter again.")
}

// unsupported returns the Problem of an adapter that Headroom cannot compute.
func unsupported(format string, args ...any) error {
	return problem.New(problem.UnknownArchitecture, "Headroom cannot use this adapter",
		fmt.Sprintf(format, args...), "Fuse it with its model by the program that made it.")
}

// Read reads the adapter in the folder dir. The values are copies of at most limitBytes bytes; 0:
// 16 GB. Errors are Problems.
func Read(dir string, limitBytes int64) (a *Adapter, err error) {
	// A file that becomes shorter while it is read must not end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			a, err = nil, broken("they changed while they were read: %v", r)
		}
	}()
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	name := mlxName
	if c.PEFT {
		name = peftName
	}
	f, err := safetensors.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "The adapter's weights cannot be read",
			"Train or download the adapter again.")
	}
	defer f.Close()
	if err := checkSize(f, limitBytes); err != nil {
		return nil, err
	}
	a = &Adapter{Info: c.Info}
	if a.Modules, err = c.modules(f); err != nil {
		return nil, err
	}
	for _, m := range a.Modules {
		a.Rank = max(a.Rank, m.Rank)
	}
	a.Digest = a.digest()
	return a, nil
}

// sideBytes is the memory beside an adapter's own in which the operators compute what it adds: at
// least ops.sideElements elements.
const sideBytes = 4 << 20

// Size returns the memory that the adapter in the folder dir takes on a device once it is used. It
// reads the header of the weights. A module that Headroom computes as several weights takes a
// little more. Errors are Problems.
func Size(dir string) (bytes int64, err error) {
	c, err := readConfig(dir)
	if err != nil {
		return 0, err
	}
	name := mlxName
	if c.PEFT {
		name = peftName
	}
	f, err := safetensors.Open(filepath.Join(dir, name))
	if err != nil {
		return 0, problem.Wrap(problem.ModelBroken, err, "The adapter's weights cannot be read",
			"Train or download the adapter again.")
	}
	defer f.Close()
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		bytes += int64(aligned(4 * t.Elements()))
	}
	return bytes + sideBytes, nil
}

// checkSize returns a Problem if the values of f take more than limitBytes as float32.
func checkSize(f *safetensors.File, limitBytes int64) error {
	if limitBytes <= 0 || limitBytes > maxBytes {
		limitBytes = maxBytes
	}
	total := int64(0)
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		if total += 4 * int64(t.Elements()); total > limitBytes {
			return problem.New(problem.DoesNotFit, "The adapter does not fit",
				fmt.Sprintf("it needs more than the %d bytes of memory that an adapter may take",
					limitBytes), "Close other apps, or unload other models.")
		}
	}
	return nil
}

// modules collects the tensors of f by module.
func (c *config) modules(f *safetensors.File) ([]Module, error) {
	found := map[string]*Module{}
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		module, part, err := c.split(name)
		if err != nil {
			return nil, err
		}
		if len(found) > maxModules {
			return nil, unsupported("it has more than %d modules", maxModules)
		}
		values, err := values(t)
		if err != nil {
			return nil, err
		}
		m := found[module]
		if m == nil {
			m = &Module{Name: module}
			found[module] = m
		}
		at := map[piece]*Matrix{partA: &m.A, partB: &m.B, partM: &m.Magnitude,
			embeddingA: &m.A, embeddingB: &m.B}[part]
		if at.Values != nil {
			return nil, broken("module %s has two tensors for one part; one is %s", module, name)
		}
		*at = Matrix{Shape: slices.Clone(t.Shape), Values: values}
		m.Embedding = m.Embedding || part == embeddingA || part == embeddingB
	}
	if len(found) == 0 {
		return nil, broken("%s has no tensors, expected lora_a and lora_b of some modules",
			f.Path())
	}
	var list []Module
	for _, m := range found {
		if err := c.complete(m); err != nil {
			return nil, err
		}
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b Module) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// complete checks that m has all of its parts, with shapes that belong together, and sets its rank
// and scale.
func (c *config) complete(m *Module) error {
	if m.A.Values == nil || m.B.Values == nil {
		return broken("module %s has one of the two matrices of LoRA, expected both", m.Name)
	}
	a, b := m.A.Shape, m.B.Shape
	mismatch := func(expected string) error {
		return broken("module %s has matrices of shape %s and %s, expected %s", m.Name, m.A, m.B,
			expected)
	}
	switch {
	case c.PEFT:
		if len(a) != 2 || len(b) != 2 || a[0] != b[1] {
			return mismatch("r x in and out x r")
		}
		m.Rank = a[0]
	case len(a) == 3:
		if len(b) != 3 || a[0] != b[0] || a[1] != b[2] {
			return mismatch("experts x r x in and experts x out x r")
		}
		m.Rank = a[1]
	default:
		if len(a) != 2 || len(b) != 2 || a[1] != b[0] {
			return mismatch("in x r and r x out")
		}
		m.Rank = a[1]
	}
	if m.Rank < 1 || m.Rank > maxRank {
		return broken("module %s has rank %d, expected 1 to %d", m.Name, m.Rank, maxRank)
	}
	if slices.Contains(a, 0) || slices.Contains(b, 0) {
		return mismatch("no dimension of 0")
	}
	if (m.Magnitude.Values != nil) != c.DoRA {
		if c.DoRA {
			return broken("module %s has no magnitude, but the adapter is DoRA", m.Name)
		}
		return broken("module %s has a magnitude, but the adapter is not DoRA", m.Name)
	}
	var err error
	m.Scale, err = c.scaleOf(m)
	return err
}

// values returns the elements of t as float32, which must be finite.
func values(t safetensors.Tensor) ([]float32, error) {
	dtype, ok := map[safetensors.DType]kernels.DType{safetensors.F32: kernels.F32,
		safetensors.F16: kernels.F16, safetensors.BF16: kernels.BF16}[t.DType]
	if !ok {
		return nil, broken("tensor %s has type %s, expected F32, F16 or BF16", t.Name, t.DType)
	}
	n := t.Elements()
	out := make([]float32, n)
	checkpoint.Float32s(out, kernels.Tensor{Buffer: &kernels.Buffer{Bytes: t.Data,
		Size: len(t.Data)}, DType: dtype, Rows: 1, Cols: n, Stride: n})
	for _, x := range out {
		if x-x != 0 {
			return nil, broken("tensor %s has a value that is not a finite number", t.Name)
		}
	}
	return out, nil
}

// digest returns the hash of the modules.
func (a *Adapter) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	write := func(m Matrix) {
		fmt.Fprintln(h, m.Shape)
		var b [4]byte
		for _, x := range m.Values {
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
			h.Write(b[:])
		}
	}
	fmt.Fprintln(h, "adapter 1", a.PEFT)
	for i := range a.Modules {
		m := &a.Modules[i]
		fmt.Fprintf(h, "%q %x %t\n", m.Name, math.Float32bits(m.Scale), m.Embedding)
		write(m.A)
		write(m.B)
		write(m.Magnitude)
	}
	return [sha256.Size]byte(h.Sum(sum[:0]))
}
