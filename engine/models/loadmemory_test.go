package models_test

// A plan decides whether a model fits. Here it is compared with what loading really allocates.

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/plan"
	"headroom/engine/runner"
	"headroom/kernels"
)

// allocating is a device that counts the memory of its buffers, in whole pages.
type allocating struct {
	kernels.Device
	bytes   int64
	wrapped []*kernels.Buffer
}

func (d *allocating) NewBuffer(bytes int) *kernels.Buffer {
	page := os.Getpagesize()
	d.bytes += int64((bytes + page - 1) / page * page)
	return d.Device.NewBuffer(bytes)
}

func (d *allocating) WrapBuffer(b []byte) *kernels.Buffer {
	d.wrapped = append(d.wrapped, d.Device.WrapBuffer(b))
	return d.wrapped[len(d.wrapped)-1]
}

// TestPlanCountsAllocations checks for every tiny model, in every layout and unaligned, that the
// plan's memory is what the model reads of its files plus what loading and running it allocate.
func TestPlanCountsAllocations(t *testing.T) {
	for _, name := range tiny {
		original := readTiny(t, name)
		for layout, f := range original.layouts() {
			for _, pad := range []int{0, 1} {
				f.pad = pad
				t.Run(name+" "+layout, func(t *testing.T) { testPlannedMemory(t, f) })
			}
		}
	}
}

func testPlannedMemory(t *testing.T, f folder) {
	src := checkpoint.Source{Dir: f.write(t)}
	// A plan needs a tokenizer, but does not read it.
	if err := os.WriteFile(filepath.Join(src.Dir, "tokenizer.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(src, plan.Options{ContextTokens: 256, MaxSequences: 2, ChunkTokens: 64,
		AvailableBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	d := &allocating{Device: cpuDevice(t, 1)}
	w, err := checkpoint.Open(src, p.Config, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	m, err := models.Load(w)
	if err != nil {
		t.Fatal(err)
	}
	weights := d.bytes + mappedBytes(m, d.wrapped)
	if got := p.Description.Need.WeightsBytes; got != weights {
		t.Errorf("pad %d: the plan has %d bytes of weights, loading needs %d", f.pad, got, weights)
	}
	before := d.bytes
	runner.New(d, m, p.Runner)
	need := p.Description.Need
	planned, allocated := need.KVBytes+need.StateBytes+need.ScratchBytes, d.bytes-before
	// The figures do not have the ends of pages, and the tokens of a pass.
	slack := int64((2*len(p.Spec.Layers) + 4) * os.Getpagesize())
	if planned > allocated || allocated > planned+slack {
		t.Errorf("pad %d: the plan has %d bytes beside the weights, the runner allocates %d", f.pad,
			planned, allocated)
	}
}

// mappedBytes returns the number of bytes of the wrapped buffers that the tensors in m cover.
func mappedBytes(m models.Model, wrapped []*kernels.Buffer) int64 {
	var ranges [][2]int // in one file
	seen := map[uintptr]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			walk(v.Elem())
		case reflect.Pointer:
			if !v.IsNil() && !seen[v.Pointer()] {
				seen[v.Pointer()] = true
				walk(v.Elem())
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[kernels.Tensor]() {
				ranges = append(ranges, rangesOf(v, wrapped)...)
				return
			}
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(m))
	slices.SortFunc(ranges, func(a, b [2]int) int { return a[0] - b[0] })
	total, end := 0, 0
	for _, r := range ranges {
		total += max(0, r[1]-max(end, r[0]))
		end = max(end, r[1])
	}
	return int64(total)
}

// rangesOf returns the bytes of each row of a tensor if it is in one of the buffers.
func rangesOf(v reflect.Value, wrapped []*kernels.Buffer) (ranges [][2]int) {
	field := func(name string) int { return int(v.FieldByName(name).Int()) }
	buffer := v.FieldByName("Buffer")
	if !slices.ContainsFunc(wrapped, func(b *kernels.Buffer) bool {
		return buffer.Pointer() == reflect.ValueOf(b).Pointer()
	}) {
		return nil
	}
	size := kernels.DType(v.FieldByName("DType").Uint()).Size()
	for row := range field("Rows") {
		from := field("Offset") + row*field("Stride")*size
		ranges = append(ranges, [2]int{from, from + field("Cols")*size})
	}
	return ranges
}
