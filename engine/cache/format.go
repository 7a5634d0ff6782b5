package cache

// This file maps a user's options to the KV cache format of each attention layer. Each layer gets a
// format that its head dimension allows, so that every model can be opened with every option.

import (
	"fmt"
	"strconv"
	"strings"

	"headroom/kernels"
	"headroom/kernels/attention"
)

// Format is the format of a model's keys and values. All attention layers have the same format,
// except that affine codes have at least BoundaryBits in the first and last layers, which lose most
// from fewer bits. The zero value is float32.
type Format struct {
	K, V           attention.Format
	BoundaryLayers int // number of attention layers at each end that have BoundaryBits; 0: none
	BoundaryBits   int
	// StartTokens is the number of first positions of every sequence that stay float16. It is a
	// multiple of attention.StartStep, or 0 for none. See Start.
	StartTokens int
}

// FormatOptions are a user's options for a Format. The zero value means Default.
type FormatOptions struct {
	// Name is "f16", "bf16", "f32", "affine", "q8_0" or "q4_0". "" means affine if Bits or
	// GroupSize is given, else Default.
	Name string
	// Bits of affine codes: "(8, 4)" for K and V, or one number for both. "" means (8, 4).
	Bits string
	// GroupSize of affine codes: "(64, 32)" for K and V, or one number for both. "" means (64, 32).
	GroupSize      string
	BoundaryLayers int // 0 means 2, a negative number none
	BoundaryBits   int // 0 means 8
	// StartTokens is the number of first tokens that stay float16. It is rounded up to a multiple
	// of attention.StartStep. 0 means none.
	StartTokens int
}

// Plain returns the format of K and V as elements of dtype.
func Plain(dtype kernels.DType) Format {
	return Format{K: attention.FloatFormat(dtype), V: attention.FloatFormat(dtype)}
}

// Affine returns the affine format with its defaults: K8 in groups of 64, V4 in groups of 32, and 8
// bits for both in the first and last two attention layers. Keys need more bits than values, since
// their errors are multiplied by the query and go through an exponential.
func Affine() Format {
	return Format{
		K:              attention.Format{Kind: attention.Affine, Bits: 8, Group: 64},
		V:              attention.Format{Kind: attention.Affine, Bits: 4, Group: 32},
		BoundaryLayers: 2, BoundaryBits: 8,
	}
}

// Default returns the default format, Affine.
func Default() Format { return Affine() }

// maxStartTokens is the maximum of FormatOptions.StartTokens. It exceeds the context of any model.
const maxStartTokens = 1 << 30

// ParseFormat returns the format that o describes.
func ParseFormat(o FormatOptions) (Format, error) {
	if o.StartTokens < 0 || o.StartTokens > maxStartTokens {
		return Format{}, fmt.Errorf("KV format: got a start of %d tokens, expected 0 to %d",
			o.StartTokens, maxStartTokens)
	}
	f, err := o.parse()
	f.StartTokens = (o.StartTokens + attention.StartStep - 1) / attention.StartStep *
		attention.StartStep
	return f, err
}

func (o FormatOptions) parse() (Format, error) {
	name := o.Name
	if name == "" && (o.Bits != "" || o.GroupSize != "") {
		name = "affine"
	}
	if name != "affine" && name != "" && (o.Bits != "" || o.GroupSize != "") {
		return Format{}, fmt.Errorf(
			"KV format: got %s with bits or a group size, which only affine has", name)
	}
	switch name {
	case "f16":
		return Plain(kernels.F16), nil
	case "bf16":
		return Plain(kernels.BF16), nil
	case "f32":
		return Plain(kernels.F32), nil
	case "q8_0":
		q := attention.Format{Kind: attention.Q8_0}
		return Format{K: q, V: q}, nil
	case "q4_0":
		q := attention.Format{Kind: attention.Q4_0}
		return Format{K: q, V: q}, nil
	case "affine", "":
		f := Affine()
		if name == "" {
			f = Default()
		}
		return f, f.parseAffine(o)
	}
	return Format{}, fmt.Errorf("KV format: got %q, expected f16, bf16, f32, affine, q8_0 or q4_0",
		name)
}

func (f *Format) parseAffine(o FormatOptions) (err error) {
	if f.K.Bits, f.V.Bits, err = parsePair("bits", o.Bits, f.K.Bits, f.V.Bits); err != nil {
		return err
	}
	if f.K.Group, f.V.Group,
		err = parsePair("group size", o.GroupSize, f.K.Group, f.V.Group); err != nil {
		return err
	}
	if o.BoundaryLayers != 0 {
		f.BoundaryLayers = max(0, o.BoundaryLayers)
	}
	if o.BoundaryBits != 0 {
		f.BoundaryBits = o.BoundaryBits
	}
	boundary := f.K
	boundary.Bits = f.BoundaryBits
	for _, side := range []attention.Format{f.K, f.V, boundary} {
		if err := side.Check(side.Group); err != nil {
			return fmt.Errorf("KV format: %w", err)
		}
	}
	return nil
}

// parsePair reads "(8, 4)", "8,4" or "8".
func parsePair(what, text string, k, v int) (int, int, error) {
	if text == "" {
		return k, v, nil
	}
	inner := strings.TrimSpace(text)
	if strings.HasPrefix(inner, "(") && strings.HasSuffix(inner, ")") {
		inner = inner[1 : len(inner)-1]
	}
	first, second, two := strings.Cut(inner, ",")
	k, err := strconv.Atoi(strings.TrimSpace(first))
	v = k
	if err == nil && two {
		v, err = strconv.Atoi(strings.TrimSpace(second))
	}
	if err != nil {
		return 0, 0, fmt.Errorf(
			"KV %s: got %q, expected a number, or two as in \"(8, 4)\", for K and V", what, text)
	}
	return k, v, nil
}

// Start returns the number of first positions that the layers of specs store as float16. It is
// StartTokens, or 0 if no layer without a window is quantized, because StartTokens has no effect
// then. Whether a position is float16 depends only on the position, not on when it was computed.
func (f Format) Start(specs []LayerSpec) int {
	for i, l := range f.Layers(specs) {
		if s := specs[i]; s.KVHeads > 0 && s.Window == 0 &&
			(l.K.AtStart() != l.K || l.V.AtStart() != l.V) {
			return f.StartTokens
		}
	}
	return 0
}

// LayerFormat is the format of one attention layer. V is the zero value if the layer has no V, so
// that its values are stored as its keys are.
type LayerFormat struct{ K, V attention.Format }

// Layers returns the format of each layer of specs. It is the zero value for layers without keys.
func (f Format) Layers(specs []LayerSpec) []LayerFormat {
	layers, at, total := make([]LayerFormat, len(specs)), 0, 0
	for _, s := range specs {
		if s.KVHeads > 0 && !s.Drafts {
			total++
		}
	}
	type kind struct {
		boundary bool
		headDim  int
		latent   bool
	}
	known := map[kind]LayerFormat{} // most layers are alike
	for i, s := range specs {
		if s.KVHeads == 0 {
			continue
		}
		k := kind{!s.Drafts && min(at, total-1-at) < f.BoundaryLayers, s.HeadDim,
			s.ValueDim > 0}
		format, ok := known[k]
		if !ok {
			format.K = f.side(f.K, k.boundary, k.headDim)
			if !k.latent {
				format.V = f.side(f.V, k.boundary, k.headDim)
			}
			known[k] = format
		}
		layers[i] = format
		at++
	}
	return layers
}

// side returns the format of K or V in a layer. A group size that does not divide headDim is
// halved, down to 32. If 32 does not divide it either, the format is float16.
func (f Format) side(s attention.Format, boundary bool, headDim int) attention.Format {
	if s.Kind == attention.Affine && boundary {
		s.Bits = max(s.Bits, f.BoundaryBits)
	}
	for s.Check(headDim) != nil && s.Group > 32 {
		s.Group /= 2
	}
	if s.Check(headDim) != nil {
		return attention.FloatFormat(kernels.F16)
	}
	return s
}

// Describe returns the display name of the format, such as "K8 g64 + V4 g32, first and last 2
// layers K8 V8, first 512 tokens f16".
func (f Format) Describe(specs []LayerSpec) string {
	var kv []LayerFormat
	latent := false // the layers of a model are all so, or none is
	for i, l := range f.Layers(specs) {
		if specs[i].KVHeads > 0 {
			kv, latent = append(kv, l), specs[i].ValueDim > 0
		}
	}
	if len(kv) == 0 {
		return "none"
	}
	inner, outer := kv[len(kv)/2], kv[0]
	words := short("K", inner.K, true) + " + " + short("V", inner.V, true)
	if inner.K == inner.V && inner.K.Kind != attention.Affine {
		words = inner.K.String()
	}
	if latent {
		words = "latent " + inner.K.String()
	}
	if outer != inner {
		ends := "first and last layer"
		if f.BoundaryLayers > 1 {
			ends = fmt.Sprintf("first and last %d layers", f.BoundaryLayers)
		}
		words += fmt.Sprintf(", %s %s", ends, short("K", outer.K, false))
		if !latent {
			words += " " + short("V", outer.V, false)
		}
	}
	if start := f.Start(specs); start > 0 {
		words += fmt.Sprintf(", first %d tokens f16", start)
	}
	return words
}

func short(side string, f attention.Format, group bool) string {
	switch {
	case f.Kind != attention.Affine:
		return side + " " + f.String()
	case group:
		return fmt.Sprintf("%s%d g%d", side, f.Bits, f.Group)
	}
	return fmt.Sprintf("%s%d", side, f.Bits)
}
