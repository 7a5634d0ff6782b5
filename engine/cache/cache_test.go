package cache

import (
	"testing"

	"headroom/kernels"
)

// specs has the three kinds of layers: attention with 2 heads of 64, recurrent, and one without
// memory.
var specs = []LayerSpec{{KVHeads: 2, HeadDim: 64},
	{ConvValues: 3 * 70, ConvChannels: 70, StateValues: 500, StateRow: 25}, {},
	{KVHeads: 1, HeadDim: 16}}

// TestBytes compares with sizes computed by hand. A page has 32 positions of K and of V. A slot has
// 3 rows of 70 channels, in two groups each, and 20 value rows of 25.
func TestBytes(t *testing.T) {
	for dtype, want := range map[kernels.DType]int64{
		kernels.F16:  2 * 32 * (2*64 + 16) * 2, // 18432
		kernels.BF16: 18432,
		kernels.F32:  36864,
	} {
		if got := PageBytes(specs, Plain(dtype)); got != want {
			t.Errorf("a page in %s: %d bytes, expected %d", dtype, got, want)
		}
	}
	for name, want := range map[string]int64{
		"":     4 * (210 + 500),
		"f32":  4 * (210 + 500),
		"bf16": 2 * (210 + 500),
		// Scales and codes, for the convolution padded to a multiple of 4.
		"int8": 3*2*4 + 210 + 2 + 20*4 + 500,
	} {
		f, err := ParseStateFormat(name)
		if got := SlotBytes(specs, f); got != want || err != nil {
			t.Errorf("a slot in %q: %d bytes, expected %d, %v", name, got, want, err)
		}
		if name != "" && f.String() != name {
			t.Errorf("format %q is described as %q", name, f)
		}
	}
	if with, without := (StateFormat{}).Describe(specs),
		(StateFormat{}).Describe(specs[2:]); with != "f32" || without != "none" {
		t.Errorf("described as %q and %q", with, without)
	}
	if _, err := ParseStateFormat("f16"); err == nil {
		t.Error("ParseStateFormat accepts f16")
	}
	if PageBytes(specs[1:3], Plain(kernels.F16)) != 0 || SlotBytes(specs[2:], StateFormat{}) != 0 {
		t.Error("layers of other kinds are counted")
	}
}

// counting is a device that counts allocated bytes.
type counting struct {
	*kernels.DryRun
	bytes int64
}

func (d *counting) NewBuffer(bytes int) *kernels.Buffer {
	d.bytes += int64(bytes)
	return d.DryRun.NewBuffer(bytes)
}

// TestNewAllocatesWhatThePlanSays compares allocations with PageBytes and SlotBytes, which the
// memory plan relies on.
func TestNewAllocatesWhatThePlanSays(t *testing.T) {
	const pages, slots = 7, 3
	for i, f := range []Format{Plain(kernels.BF16), Affine(), Affine()} {
		state := stateFormats[i].format
		d := &counting{DryRun: kernels.NewDryRun()}
		layers := New(d, specs, Options{Format: f, State: state, Pages: pages, Slots: slots})
		if want := pages*PageBytes(specs, f) + slots*SlotBytes(specs, state); d.bytes != want {
			t.Errorf("allocated %d bytes, planned %d", d.bytes, want)
		}
		if len(layers) != len(specs) || layers[0].KV == nil || layers[0].KV.Pages() != pages ||
			layers[3].KV.HeadDim != 16 || !layers[0].State.IsNone() {
			t.Errorf("attention layers: %+v, %+v", layers[0], layers[3])
		}
		if l := layers[1]; l.KV != nil || l.Conv.Rows != slots || l.Conv.Cols < 210 ||
			l.State.Rows != slots || l.State.Cols < 500 || l.State.DType != state.dtype {
			t.Errorf("recurrent layer: %+v", l)
		}
		if l := layers[2]; l.KV != nil || !l.Conv.IsNone() || !l.State.IsNone() {
			t.Errorf("a layer without memory: %+v", l)
		}
	}
}

// TestStartAllocatesWhatThePlanSays checks the allocation with start pages. They come directly
// before the other pages, even in a layer that is not quantized.
func TestStartAllocatesWhatThePlanSays(t *testing.T) {
	const pages, startPages = 12, 5
	f := parse(t, FormatOptions{StartTokens: 512})
	d := &counting{DryRun: kernels.NewDryRun()}
	layers := New(d, specs, Options{Format: f, Pages: pages, StartPages: startPages, Slots: 1})
	if want := startPages*StartPageBytes(specs, f) + (pages-startPages)*PageBytes(specs, f) +
		SlotBytes(specs, StateFormat{}); d.bytes != want {
		t.Errorf("allocated %d bytes, planned %d", d.bytes, want)
	}
	start, rest := PageRegions(layers, true), PageRegions(layers, false)
	if len(start) != 4 || len(rest) != 4 ||
		len(PageRegions(New(d, specs, Options{Format: Affine(), Pages: 1}), true)) != 0 {
		t.Fatalf("%d and %d regions, expected K and V of two layers", len(start), len(rest))
	}
	at := func(r Region, page int) int { return r.Offset + page*r.PieceBytes }
	for i := range start {
		if at(start[i], 0) != 0 || at(start[i], startPages) != at(rest[i], startPages) ||
			at(rest[i], pages) != rest[i].Buffer.Size || start[i].Name == rest[i].Name {
			t.Errorf("%s ends at %d, %s begins at %d and ends at %d of %d", start[i].Name,
				at(start[i], startPages), rest[i].Name, at(rest[i], startPages),
				at(rest[i], pages), rest[i].Buffer.Size)
		}
	}
	if start[0].PieceBytes != 2*32*64*2 || rest[0].PieceBytes != 2*32*(64+4) ||
		start[2].PieceBytes != rest[2].PieceBytes {
		t.Errorf("pages of K: %d and %d bytes, expected float16 and 8 bits", start[0].PieceBytes,
			rest[0].PieceBytes)
	}
}

// TestLatentsAreStoredOnce has the layers of GLM-4.7-Flash. A token takes 576 elements of 2 bytes
// in each, or in 8 bits with groups of 64, 576 + 9*4 = 612 bytes, and no page of values.
func TestLatentsAreStoredOnce(t *testing.T) {
	const layers, pages = 47, 5
	specs := make([]LayerSpec, layers)
	for i := range specs {
		specs[i] = LayerSpec{KVHeads: 1, HeadDim: 576, ValueDim: 512}
	}
	for _, c := range []struct {
		format Format
		bytes  int64
		words  string
	}{
		{Plain(kernels.F16), layers * 1152, "latent f16"},
		{Affine(), layers * 612, "latent 8-bit g64"},
	} {
		if got := PageBytes(specs, c.format); got != c.bytes*PageTokens {
			t.Errorf("%s: a page of %d bytes, expected %d", c.words, got, c.bytes*PageTokens)
		}
		if got := c.format.Describe(specs); got != c.words {
			t.Errorf("got the words %q, expected %q", got, c.words)
		}
		d := &counting{DryRun: kernels.NewDryRun()}
		memory := New(d, specs, Options{Format: c.format, Pages: pages})
		if want := pages * PageTokens * c.bytes; d.bytes != want {
			t.Errorf("%s: allocated %d bytes, expected %d", c.words, d.bytes, want)
		}
		regions := PageRegions(memory, false)
		if len(regions) != layers || regions[0].Name != "layers.0.latent_512" ||
			int64(regions[0].PieceBytes) != PageTokens*c.bytes/layers {
			t.Errorf("%s: %d regions, the first %+v", c.words, len(regions), regions[0])
		}
		if got := memory[0].PagesWithin(regions[0].PieceBytes * 3); got != 3 {
			t.Errorf("%s: %d pages in the memory of 3", c.words, got)
		}
	}
}
