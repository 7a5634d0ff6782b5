// Package cache is what a model remembers of its sequences: for attention layers, pages of keys and
// values; for recurrent layers, slots of fixed-size state. All of it is allocated once, when a
// model is loaded, and shared by its sequences through page tables and slot numbers (kernels.Span).
// Who owns which page is decided elsewhere (engine/sched).
package cache

import (
	"slices"

	"headroom/kernels"
	"headroom/kernels/attention"
)

// PageTokens is the positions of one page, P. Small pages share finely; a multiple of the 16 lanes
// kernels work in.
const PageTokens = 32

// LayerSpec says what one layer keeps. Exactly one of the two is set; a layer that keeps nothing
// has neither.
type LayerSpec struct {
	// Attention: keys and values of KVHeads heads of HeadDim, per token.
	KVHeads, HeadDim int
	// Window is how many positions a row of an attention layer sees, its own included, besides the
	// first SinkTokens of the sequence. 0: all. With a window, keys and values lie in a ring
	// (ring.go), not in the pool's pages.
	Window, SinkTokens int
	// Recurrent: values per sequence, for the convolution's last rows, ConvChannels each, and for
	// the state, in rows of StateRow.
	ConvValues, ConvChannels int
	StateValues, StateRow    int
}

// Layer is one layer's memory.
type Layer struct {
	KV *attention.Cache // attention layers
	// attention layers with a window: where in KV a sequence has its positions
	Ring *Ring
	// recurrent layers: [slots, ConvValues], laid out as recurrent.Conv has it
	Conv  kernels.Tensor
	State kernels.Tensor // recurrent layers: [slots, StateValues], as recurrent.GatedDelta has it
}

// Options size the memory.
type Options struct {
	Format Format      // of keys and values
	State  StateFormat // of recurrent states
	// of PageTokens positions, each page holding those positions for every attention layer without
	// a window
	Pages int
	Slots int // sequences with recurrent state or rings
	// StartPages of Pages, the first ones, are for the first Format.Start tokens of sequences; 0
	// where that is 0.
	StartPages int
	// SpanTokens is the most tokens of one sequence in one pass: rings have room for them behind
	// the window.
	SpanTokens int
}

// New allocates the memory of all layers.
func New(d kernels.Device, specs []LayerSpec, o Options) []Layer {
	layers, formats := make([]Layer, len(specs)), o.Format.Layers(specs)
	start := attention.Start{Tokens: o.Format.Start(specs), Pages: o.StartPages}
	var rings []*Ring
	for i, s := range specs {
		switch {
		case s.Window > 0:
			at := slices.IndexFunc(rings,
				func(r *Ring) bool { return r.Window == s.Window && r.SinkTokens == s.SinkTokens })
			if at < 0 {
				at, rings = len(rings), append(rings, newRing(s, o))
			}
			layers[i].Ring = rings[at]
			layers[i].KV = attention.NewCache(d, formats[i].K, formats[i].V, s.KVHeads, s.HeadDim,
				PageTokens, o.Slots*rings[at].SlotPages, attention.Start{})
		case s.KVHeads > 0:
			layers[i].KV = attention.NewCache(d, formats[i].K, formats[i].V, s.KVHeads, s.HeadDim,
				PageTokens, o.Pages, start)
		case s.StateValues > 0:
			layers[i].Conv, layers[i].State = o.State.tensors(d, s, o.Slots)
		}
	}
	return layers
}

// pageBytes is the memory of one page of an attention layer.
func (s LayerSpec) pageBytes(f LayerFormat) int64 {
	return PageTokens * int64(s.KVHeads) * int64(f.K.RowBytes(s.HeadDim)+f.V.RowBytes(s.HeadDim))
}

// PageBytes is the memory of one page over all layers, behind the start.
func PageBytes(specs []LayerSpec, f Format) int64 {
	n := int64(0)
	for i, l := range f.Layers(specs) {
		if s := specs[i]; s.KVHeads > 0 && s.Window == 0 {
			n += s.pageBytes(l)
		}
	}
	return n
}

// StartPageBytes is the memory of one page of the start over all layers; 0 if there is none.
func StartPageBytes(specs []LayerSpec, f Format) int64 {
	n := int64(0)
	for i, l := range f.Layers(specs) {
		if s := specs[i]; s.KVHeads > 0 && s.Window == 0 && f.Start(specs) > 0 {
			n += s.pageBytes(LayerFormat{l.K.AtStart(), l.V.AtStart()})
		}
	}
	return n
}
