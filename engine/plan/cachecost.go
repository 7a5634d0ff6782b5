package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/kernels"
)

// CacheCost is the cache memory of one model in one KV format.
type CacheCost struct {
	Architecture  string // model_type in config.json
	ContextTokens int    // the longest context that the model was trained for
	Format        string // for example "K8 g64 + V4 g32, first and last 2 layers K8 V8"
	Layers        []LayerCost
	BytesPerToken int64 // sum over the layers that keep every token
	// The first StartTokens tokens take StartBytesPerToken bytes each instead of BytesPerToken.
	// Both are 0 if there is no start in float16.
	StartTokens        int
	StartBytesPerToken int64
	RingBytes          int64 // per sequence, sum over the layers with a window
	StateBytes         int64 // per sequence, sum over the recurrent layers
}

// LayerCost is the cache memory of a group of equal layers. A layer has either BytesPerToken, for
// pages, or BytesPerSequence, for a ring or a state.
type LayerCost struct {
	Layers int    // number of layers in the group
	Kind   string // for example "attention, 2 heads of 256"
	// Format is the format of keys and values, for example "8-bit g64 and 4-bit g32". It is empty
	// if the layers have none.
	Format           string
	BytesPerToken    int64 // of one layer
	BytesPerSequence int64 // of one layer
}

// ContextBytes returns the cache memory of one sequence of the given length, rounded up to whole
// pages.
func (c *CacheCost) ContextBytes(tokens int) int64 {
	tokens = pagesFor(tokens) * cache.PageTokens
	first := min(tokens, c.StartTokens)
	return int64(first)*c.StartBytesPerToken + int64(tokens-first)*c.BytesPerToken + c.RingBytes +
		c.StateBytes
}

// Cache returns the cache memory of a model with the given config.json. It uses the cache formats
// and limits of o. The quantization of the weights does not matter. Errors are Problems.
func Cache(config []byte, o Options) (cost CacheCost, err error) {
	o.setDefaults()
	format, err := cache.ParseFormat(o.KVFormat)
	if err != nil {
		return cost, problem.Wrap(problem.BadRequest, err, "This KV cache format does not exist",
			"")
	}
	state, err := cache.ParseStateFormat(o.StateFormat)
	if err != nil {
		return cost, problem.Wrap(problem.BadRequest, err,
			"This format of recurrent states does not exist", "")
	}
	spec, architecture, err := shapes(config)
	if err != nil {
		return cost, err
	}
	layers := spec.Layers
	if o.MaxKVTokens < spec.ContextTokens { // otherwise no sequence reaches the limit
		layers = cache.Limit(layers, o.MaxKVTokens)
	}
	span := o.ChunkTokens + o.MaxSequences
	cost = CacheCost{
		Architecture: architecture, ContextTokens: spec.ContextTokens,
		Format:             format.Describe(layers),
		BytesPerToken:      cache.PageBytes(layers, format) / cache.PageTokens,
		StartTokens:        format.Start(layers),
		StartBytesPerToken: cache.StartPageBytes(layers, format) / cache.PageTokens,
		RingBytes:          cache.RingBytes(layers, format, span),
		StateBytes:         cache.SlotBytes(layers, state),
	}
	groups := map[LayerCost]int{} // from a LayerCost with Layers 0 to its index in cost.Layers
	for i, f := range format.Layers(layers) {
		layer := layerCost(layers[i], f, state, span)
		n, ok := groups[layer]
		if !ok {
			n = len(cost.Layers)
			groups[layer] = n
			cost.Layers = append(cost.Layers, layer)
		}
		cost.Layers[n].Layers++
	}
	return cost, nil
}

// layerCost returns the cache memory of one layer in format f, with rings for passes of span
// tokens. LayerCost.Layers is 0.
func layerCost(s cache.LayerSpec, f cache.LayerFormat, state cache.StateFormat,
	span int) LayerCost {
	cost := LayerCost{Kind: "no cache"}
	layer := []cache.LayerSpec{s}
	switch {
	case s.KVHeads > 0:
		// A single layer would count as a boundary layer, so this format has no boundaries.
		format := cache.Format{K: f.K, V: f.V}
		cost.BytesPerToken = cache.PageBytes(layer, format) / cache.PageTokens
		cost.BytesPerSequence = cache.RingBytes(layer, format, span)
		cost.Kind = fmt.Sprintf("attention, %d heads of %d", s.KVHeads, s.HeadDim)
		if s.ValueDim > 0 {
			cost.Kind = fmt.Sprintf("latent attention, vectors of %d", s.HeadDim)
		}
		if s.Window > 0 {
			cost.Kind += fmt.Sprintf(", last %d tokens", s.Window)
		}
		cost.Format = f.K.String()
		if f.K != f.V && s.ValueDim == 0 {
			cost.Format += " and " + f.V.String()
		}
	case s.Recurrent():
		cost.BytesPerSequence = cache.SlotBytes(layer, state)
		cost.Kind = fmt.Sprintf("recurrent, %d values of state and %d of convolution",
			s.StateValues, s.ConvValues)
		if s.StateValues == 0 {
			cost.Kind = fmt.Sprintf("recurrent, %d values of convolution", s.ConvValues)
		}
	}
	return cost
}

// shapes loads the model of a config.json, with random weights, on a device that allocates nothing.
// It replaces the quantization in the config by 4 bits, so that any quantization is accepted.
func shapes(config []byte) (spec models.Spec, architecture string, err error) {
	plain, err := as4bit(config)
	if err != nil {
		return spec, "", err
	}
	src := checkpoint.Random(plain)
	c, err := src.Config()
	if err != nil {
		return spec, "", err
	}
	w, err := checkpoint.Open(src, c, kernels.NewDryRun())
	if err != nil {
		return spec, "", err
	}
	defer w.Close()
	defer refusedShape(&err)
	m, err := models.Load(w)
	if err != nil {
		return spec, "", err
	}
	return m.Spec(), c.ModelType, nil
}

// as4bit returns a config.json with its quantization set to 4 bits in groups of 32.
func as4bit(config []byte) ([]byte, error) {
	broken := func(err error) error {
		what := "config.json is not valid JSON"
		if errors.As(err, new(*modelfile.KindError)) {
			what = "config.json does not describe a model"
		}
		return problem.Wrap(problem.ModelBroken, err, what, "")
	}
	keys, text := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := modelfile.Decode("", modelfile.Standard(config), &keys); err != nil {
		return nil, broken(err)
	}
	if keys["text_config"] != nil {
		if err := modelfile.Decode("text_config", keys["text_config"], &text); err != nil {
			return nil, broken(err)
		}
	}
	for _, name := range []string{"quantization", "quantization_config"} {
		delete(keys, name)
		delete(text, name)
	}
	keys["quantization"] = json.RawMessage(`{"group_size": 32, "bits": 4}`)
	var err error
	if len(text) > 0 {
		if keys["text_config"], err = json.Marshal(text); err != nil {
			return nil, broken(err)
		}
	}
	replaced, err := json.Marshal(keys)
	if err != nil {
		return nil, broken(err)
	}
	return replaced, nil
}
