package engine

// What a model's caches take, in any format, worked out from config.json alone: no weights, no
// tokenizer, nothing allocated.

import (
	"encoding/json"
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/kernels"
)

// CacheCost is what one model keeps of its sequences in one format.
type CacheCost struct {
	Architecture  string // config.json's model_type
	ContextTokens int    // the longest the model was trained for
	Format        string // as "K8 g64 + V4 g32, first and last 2 layers K8 V8"
	Layers        []LayerCost
	BytesPerToken int64 // of the layers that keep every token
	// StartTokens first tokens take StartBytesPerToken instead; both 0 if none do.
	StartTokens        int
	StartBytesPerToken int64
	RingBytes          int64 // of one sequence: layers that keep the last tokens only
	StateBytes         int64 // of one sequence: recurrent layers
}

// LayerCost is layers of one model that cost the same. Either of the sizes is 0.
type LayerCost struct {
	Layers int
	Kind   string // as "attention, 2 heads of 256"
	// of keys and values, as "8-bit g64 and 4-bit g32"; "": the layers have none
	Format           string
	BytesPerToken    int64 // of one layer
	BytesPerSequence int64 // of one layer
}

// ContextBytes is what one sequence of so many tokens takes, in whole pages.
func (c *CacheCost) ContextBytes(tokens int) int64 {
	tokens = pagesOf(tokens) * cache.PageTokens
	first := min(tokens, c.StartTokens)
	return int64(first)*c.StartBytesPerToken + int64(tokens-first)*c.BytesPerToken + c.RingBytes +
		c.StateBytes
}

// DescribeCache says what a model of that config.json would keep, in the format and with the limit
// that o asks for. How its weights are packed plays no part. Errors are Problems.
func DescribeCache(config []byte, o Options) (cost CacheCost, err error) {
	o.setDefaults()
	format, err := cache.ParseFormat(o.kvFormat())
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
	if o.MaxKVTokens < spec.ContextTokens { // else no sequence gets longer than that anyway
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
	at := map[LayerCost]int{} // by what it is with no layers counted
	for i, f := range format.Layers(layers) {
		one := []cache.LayerSpec{layers[i]}
		kind := LayerCost{Kind: "keeps nothing"}
		switch s := layers[i]; {
		case s.KVHeads > 0:
			// one layer alone is at both ends: its format is given as one without ends
			alone := cache.Format{K: f.K, V: f.V}
			kind.BytesPerToken = cache.PageBytes(one, alone) / cache.PageTokens
			kind.BytesPerSequence = cache.RingBytes(one, alone, span)
			kind.Kind = fmt.Sprintf("attention, %d heads of %d", s.KVHeads, s.HeadDim)
			if s.Window > 0 {
				kind.Kind += fmt.Sprintf(", last %d tokens", s.Window)
			}
			kind.Format = f.K.String()
			if f.K != f.V {
				kind.Format += " and " + f.V.String()
			}
		case s.StateValues > 0:
			kind.BytesPerSequence = cache.SlotBytes(one, state)
			kind.Kind = fmt.Sprintf("recurrent, %d values of state and %d of convolution",
				s.StateValues, s.ConvValues)
		}
		n, ok := at[kind]
		if !ok {
			n = len(cost.Layers)
			at[kind] = n
			cost.Layers = append(cost.Layers, kind)
		}
		cost.Layers[n].Layers++
	}
	return cost, nil
}

// shapes is a config's model on a device that only measures. Its own packing is replaced, so that
// any can be described.
func shapes(config []byte) (spec models.Spec, architecture string, err error) {
	keys := map[string]json.RawMessage{}
	if err := json.Unmarshal(config, &keys); err != nil {
		return spec, "", problem.Wrap(problem.ModelBroken, err, "config.json is not valid JSON", "")
	}
	text := map[string]json.RawMessage{}
	if keys["text_config"] != nil {
		if err := json.Unmarshal(keys["text_config"], &text); err != nil {
			return spec, "", problem.Wrap(problem.ModelBroken, err,
				"text_config in config.json is not an object", "")
		}
	}
	for _, name := range []string{"quantization", "quantization_config"} {
		delete(keys, name)
		delete(text, name)
	}
	keys["quantization"] = json.RawMessage(`{"group_size": 32, "bits": 4}`)
	if len(text) > 0 {
		if keys["text_config"], err = json.Marshal(text); err != nil {
			return spec, "", problem.Wrap(problem.ModelBroken, err,
				"text_config in config.json cannot be read", "")
		}
	}
	plain, err := json.Marshal(keys)
	if err != nil {
		return spec, "", problem.Wrap(problem.ModelBroken, err, "config.json cannot be read", "")
	}
	src := checkpoint.Random(plain)
	c, err := src.Config()
	if err != nil {
		return spec, "", err
	}
	w, err := checkpoint.Open(src, c, kernels.NewMeasure())
	if err != nil {
		return spec, "", err
	}
	defer w.Close()
	defer func() {
		if r := recover(); r != nil { // an operator refused a shape
			err = problem.New(problem.UnknownArchitecture,
				"Headroom cannot run a model of these shapes", fmt.Sprint(r), "Pick another model.")
		}
	}()
	m, err := models.Load(w)
	if err != nil {
		return spec, "", err
	}
	return m.Spec(), c.ModelType, nil
}
