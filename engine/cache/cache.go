// Package cache manages the memory of the sequences of a model: pages of keys and values for
// attention layers, and slots of fixed-size state for recurrent layers. All of it is allocated when
// the model is loaded. Sequences share it through page tables and slot numbers (kernels.Span),
// which engine/sched assigns.
package cache

import (
	"slices"

	"headroom/kernels"
	"headroom/kernels/attention"
)

// PageTokens is the number of positions in a page, P. Small pages let sequences share more of a
// prefix. It is a multiple of the 16 lanes of the kernels.
const PageTokens = 32

// LayerSpec describes the memory that one layer needs. Only the fields for its kind of layer are
// set: attention or recurrent. The zero value is a layer without memory.
type LayerSpec struct {
	// KVHeads and HeadDim are the dimensions of an attention layer's keys and values.
	KVHeads, HeadDim int
	// ValueDim is that of a layer with one head whose values are the first ValueDim elements of the
	// keys, which are then all it stores (multi-head latent attention). 0: values are stored.
	ValueDim int
	// Window is the number of positions that a row of an attention layer attends to, including its
	// own position. The first SinkTokens of the sequence come in addition. 0 means all positions. A
	// layer with a window has its keys and values in a ring (ring.go), not in pages of the pool.
	Window, SinkTokens int
	// ConvValues is the number of values in the stored rows of a recurrent layer's convolution.
	// Each row has ConvChannels values.
	ConvValues, ConvChannels int
	// StateValues is the number of values in the state of a recurrent layer. Each row has StateRow
	// values. Both are 0 for a layer whose convolution is all its state.
	StateValues, StateRow int
	// HiddenValues is the number of values of a hidden state, the last of each sequence, in float32
	// (models.Drafter).
	HiddenValues int
	// RecentValues is the number of values of a hidden state that is kept for each of the last
	// RecentTokens positions of a sequence, in float32 (models.Drafter). They are working memory:
	// a copy of a slot does not have them.
	RecentValues int
	// Drafts marks the layer of a block that drafts tokens. It is none of the layers at either end
	// that Format.BoundaryLayers counts.
	Drafts bool
}

// Recurrent reports whether the layer has a convolution or a state of a sequence.
func (s LayerSpec) Recurrent() bool { return s.ConvValues > 0 || s.StateValues > 0 }

// Layer is one layer's memory.
type Layer struct {
	KV    *attention.Cache // of an attention layer
	Ring  *Ring            // of an attention layer with a window: the page tables of KV
	Conv  kernels.Tensor   // of a recurrent layer: [slots, ConvValues], see recurrent.Conv
	State kernels.Tensor   // [slots, StateValues], see recurrent.GatedDelta and SSM, or none
	// Hidden is [slots+1, HiddenValues]. The last row is zero: what precedes every sequence.
	Hidden kernels.Tensor
	// Recent is [slots*RecentTokens, RecentValues]. RecentRow is the row of a position.
	Recent kernels.Tensor
}

// RecentTokens is the number of positions of a slot that have a row in Layer.Recent. It exceeds the
// drafts of a pass, so every draft that may be accepted has its row.
const RecentTokens = 16

// RecentRow returns the row of Layer.Recent for a position of the sequence in a slot.
func RecentRow(slot int32, pos int) int32 { return slot*RecentTokens + int32(pos%RecentTokens) }

// RecentBytes returns the bytes of a slot in Layer.Recent, summed over all layers.
func RecentBytes(specs []LayerSpec) (bytes int64) {
	for _, s := range specs {
		bytes += int64(kernels.F32.Size() * RecentTokens * s.RecentValues)
	}
	return bytes
}

// Buffers returns the buffers of the layer, each of which a kernel accesses as a whole.
func (l *Layer) Buffers() []*kernels.Buffer {
	switch {
	case l.KV != nil && l.KV.V == nil:
		return []*kernels.Buffer{l.KV.K}
	case l.KV != nil:
		return []*kernels.Buffer{l.KV.K, l.KV.V}
	case !l.State.IsNone():
		return []*kernels.Buffer{l.Conv.Buffer, l.State.Buffer}
	case !l.Conv.IsNone():
		return []*kernels.Buffer{l.Conv.Buffer}
	}
	return nil
}

// PagesWithin returns the number of pages after the start pages for which the keys and the values
// of an attention layer take at most the given number of bytes each.
func (l *Layer) PagesWithin(bytes int) int {
	pages := func(offset, pageBytes int) int { return (bytes - offset) / pageBytes }
	most := pages(l.KV.KPages(false))
	if l.KV.V != nil {
		most = min(most, pages(l.KV.VPages(false)))
	}
	return most - l.KV.Start.Pages
}

// Options are the formats and sizes of the memory.
type Options struct {
	Format Format      // of keys and values
	State  StateFormat // of recurrent states
	// Pages is the number of pages. A page has PageTokens positions in every attention layer
	// without a window.
	Pages int
	// Slots is the number of sequences that can have recurrent state or rings.
	Slots int
	// StartPages is the number of pages, page 0 first, that hold the first Format.Start tokens of
	// sequences. It is 0 if Format.Start is 0.
	StartPages int
	// SpanTokens is the maximum number of tokens of one sequence in one pass. Rings have room for
	// them in addition to the window.
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
			layers[i].KV = s.newKV(d, formats[i], o.Slots*rings[at].SlotPages, attention.Start{})
		case s.KVHeads > 0:
			layers[i].KV = s.newKV(d, formats[i], o.Pages, start)
		case s.Recurrent():
			layers[i].Conv, layers[i].State = o.State.tensors(d, s, o.Slots)
		}
		if s.HiddenValues > 0 {
			layers[i].Hidden = kernels.NewTensor(d, kernels.F32, o.Slots+1, s.HiddenValues)
			if h := layers[i].Hidden; h.Buffer.Bytes != nil {
				clear(h.Row(o.Slots))
			}
		}
		if s.RecentValues > 0 {
			layers[i].Recent = kernels.NewTensor(d, kernels.F32, o.Slots*RecentTokens,
				s.RecentValues)
			if r := layers[i].Recent; r.Buffer.Bytes != nil {
				clear(r.Float32s())
			}
		}
	}
	return layers
}

// newKV allocates the pages of an attention layer.
func (s LayerSpec) newKV(d kernels.Device, f LayerFormat, pages int,
	start attention.Start) *attention.Cache {
	if s.ValueDim > 0 {
		return attention.NewLatentCache(d, f.K, s.HeadDim, s.ValueDim, PageTokens, pages, start)
	}
	return attention.NewCache(d, f.K, f.V, s.KVHeads, s.HeadDim, PageTokens, pages, start)
}

// pageBytes returns the bytes of one page of an attention layer.
func (s LayerSpec) pageBytes(f LayerFormat) int64 {
	row := f.K.RowBytes(s.HeadDim)
	if s.ValueDim == 0 {
		row += f.V.RowBytes(s.HeadDim)
	}
	return PageTokens * int64(s.KVHeads) * int64(row)
}

// PageBytes returns the bytes of one page, other than a start page, summed over all layers.
func PageBytes(specs []LayerSpec, f Format) int64 {
	n := int64(0)
	for i, l := range f.Layers(specs) {
		if s := specs[i]; s.KVHeads > 0 && s.Window == 0 {
			n += s.pageBytes(l)
		}
	}
	return n
}

// StartPageBytes returns the bytes of one start page, summed over all layers. It is 0 if there are
// no start pages.
func StartPageBytes(specs []LayerSpec, f Format) int64 {
	n := int64(0)
	if f.Start(specs) == 0 {
		return 0
	}
	for i, l := range f.Layers(specs) {
		if s := specs[i]; s.KVHeads > 0 && s.Window == 0 {
			n += s.pageBytes(LayerFormat{l.K.AtStart(), l.V.AtStart()})
		}
	}
	return n
}
