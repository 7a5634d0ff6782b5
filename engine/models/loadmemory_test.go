package models_test

// A plan decides whether a model fits. Here it is compared with what loading really allocates.

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/plan"
	"headroom/engine/runner"
	"headroom/engine/safetensors"
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

// giveTokenizer writes a tokenizer into the folder of a model: a plan needs one, but reads only its
// beginning and end.
func giveTokenizer(t *testing.T, src checkpoint.Source) {
	t.Helper()
	err := os.WriteFile(filepath.Join(src.Dir, "tokenizer.json"), []byte("{}"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
}

func testPlannedMemory(t *testing.T, f folder) {
	src := checkpoint.Source{Dir: f.write(t)}
	giveTokenizer(t, src)
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
	w.Skip(p.Unread)
	m, err := models.Load(w)
	if err != nil {
		t.Fatal(err)
	}
	mapped, tensors := mappedBytes(m, d.wrapped)
	weights := d.bytes + mapped
	if got := p.Description.Need.WeightsBytes; got != weights {
		t.Errorf("pad %d: the plan has %d bytes of weights, loading needs %d", f.pad, got, weights)
	}
	if f.has("mlp.experts.") || f.has(".qweight") || f.has(".weight_zero_point") || f.pad > 0 {
		// Some tensors have been copied. A GPU must not keep those of the mapping in memory.
		seen := int64(0)
		for _, b := range d.wrapped {
			seen += int64(b.Size)
		}
		if most := mapped + int64(tensors*os.Getpagesize()); seen > most {
			t.Errorf("pad %d: the device has %d bytes of the file, expected at most %d", f.pad,
				seen, most)
		}
	}
	before := d.bytes
	runner.New(d, m, p.Runner)
	need := p.Description.Need
	planned := need.KVBytes + need.StateBytes + need.ScratchBytes + need.GrowthBytes
	allocated := d.bytes - before
	// The figures do not have the ends of pages, and the tokens of a pass.
	slack := int64((2*len(p.Spec.Layers) + 4) * os.Getpagesize())
	if planned > allocated || allocated > planned+slack {
		t.Errorf("pad %d: the plan has %d bytes beside the weights, the runner allocates %d", f.pad,
			planned, allocated)
	}
}

// TestUnreadTensorsAreNotResident loads models with large tensors that nothing reads, such as those
// of a vision tower. The device must not get them, and the logits must be the same.
func TestUnreadTensorsAreNotResident(t *testing.T) {
	const extra, size = 20, 64 << 10
	for _, name := range []string{"qwen3", "qwen3_mxfp4", "qwen3_5_text"} {
		original := readTiny(t, name)
		f := original
		for i := range extra {
			f = f.copied(fmt.Sprintf("visual.%d.weight", i), safetensors.Tensor{
				DType: safetensors.U8, Shape: []int{size}, Data: make([]byte, size)})
		}
		src := checkpoint.Source{Dir: f.write(t)}
		giveTokenizer(t, src)
		p, err := plan.New(src, plan.Options{ContextTokens: 64, AvailableBytes: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		d := &allocating{Device: cpuDevice(t, 1)}
		w, err := checkpoint.Open(src, p.Config, d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		w.Skip(p.Unread)
		m, err := models.Load(w)
		if err != nil {
			t.Fatal(err)
		}
		seen := int64(0)
		for _, b := range d.wrapped {
			seen += int64(b.Size)
		}
		most := w.SizeBytes() - extra*size + int64((extra+1)*os.Getpagesize())
		if len(d.wrapped) > extra+1 || seen > most {
			t.Errorf("%s: the device has %d bytes in %d buffers, expected at most %d in %d", name,
				seen, len(d.wrapped), most, extra+1)
		}
		if len(p.Unread) != extra {
			t.Errorf("%s: %d tensors are not read, expected %d", name, len(p.Unread), extra)
		}
		if !equalBits(logitsOf(d, m), original.logits(t, d)) {
			t.Errorf("%s: the logits differ", name)
		}
	}
}

// TestLoadingStops stops loading before the third layer.
func TestLoadingStops(t *testing.T) {
	src := checkpoint.Source{Dir: readTiny(t, "qwen3_moe").write(t)}
	config, err := src.Config()
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.Open(src, config, cpuDevice(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	var shares []float64
	enough := errors.New("enough")
	w.Progress = func(share float64) error {
		if shares = append(shares, share); len(shares) == 3 {
			return enough
		}
		return nil
	}
	if _, err := models.Load(w); !errors.Is(err, enough) ||
		!slices.Equal(shares, []float64{0, 0.25, 0.5}) {
		t.Errorf("%v after %v, expected %v", err, shares, enough)
	}
}

// mappedBytes returns the number of bytes of the wrapped buffers that the tensors in m cover, and
// the number of these tensors.
func mappedBytes(m models.Model, wrapped []*kernels.Buffer) (bytes int64, tensors int) {
	var ranges [][2]uintptr // addresses
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
				own := rangesOf(v, wrapped)
				ranges = append(ranges, own...)
				tensors += min(1, len(own))
				return
			}
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(m))
	slices.SortFunc(ranges, func(a, b [2]uintptr) int { return cmp.Compare(a[0], b[0]) })
	end := uintptr(0)
	for _, r := range ranges {
		if from := max(end, r[0]); r[1] > from {
			bytes, end = bytes+int64(r[1]-from), r[1]
		}
	}
	return bytes, tensors
}

// rangesOf returns the addresses of each row of a tensor if it is in one of the buffers.
func rangesOf(v reflect.Value, wrapped []*kernels.Buffer) (ranges [][2]uintptr) {
	field := func(name string) int { return int(v.FieldByName(name).Int()) }
	at := slices.IndexFunc(wrapped, func(b *kernels.Buffer) bool {
		return v.FieldByName("Buffer").Pointer() == reflect.ValueOf(b).Pointer()
	})
	if at < 0 {
		return nil
	}
	base := reflect.ValueOf(wrapped[at].Bytes).Pointer()
	size := kernels.DType(v.FieldByName("DType").Uint()).Size()
	for row := range field("Rows") {
		from := base + uintptr(field("Offset")+row*field("Stride")*size)
		ranges = append(ranges, [2]uintptr{from, from + uintptr(field("Cols")*size)})
	}
	return ranges
}
