package host

// The decode speed to expect of a model that is not here yet. Decoding one token reads the active
// weights once, and memory is what limits it. So the estimate is the memory's bandwidth divided by
// the bytes of these weights, and a share that the kernels reach. It is for short conversations
// without decoding ahead.

import (
	"encoding/json"

	"headroom/engine"
)

// decodeShare is the part of the memory's bandwidth that decoding reaches: 75 to 78 % on a Xeon
// (kernels/matmul/PERF.md).
const decodeShare = 0.75

// decodeSpeed returns the tokens per second to expect of the model with this config.json; 0: not
// known.
func decodeSpeed(config []byte, d engine.Description, weightsBytes int64,
	bandwidthBytes float64) float64 {
	read := float64(weightsBytes) * activeShare(config, d.Parameters)
	if read <= 0 {
		return 0
	}
	return decodeShare * bandwidthBytes / read
}

// shapes are the fields of config.json that say which weights a token does not read. Families name
// the number of experts differently.
type shapes struct {
	HiddenSize          float64 `json:"hidden_size"`
	Layers              float64 `json:"num_hidden_layers"`
	DenseLayers         float64 `json:"first_k_dense_replace"`
	Vocabulary          float64 `json:"vocab_size"`
	IntermediateSize    float64 `json:"intermediate_size"`
	MoEIntermediateSize float64 `json:"moe_intermediate_size"`
	Experts             float64 `json:"num_experts"`
	LocalExperts        float64 `json:"num_local_experts"`
	RoutedExperts       float64 `json:"n_routed_experts"`
	ActiveExperts       float64 `json:"num_experts_per_tok"`
	Tied                *bool   `json:"tie_word_embeddings"`
}

// activeShare returns which share of the parameters a token reads: not the experts that the router
// leaves out, nor the input embeddings if the output has a matrix of its own.
func activeShare(config []byte, parameters int64) float64 {
	var c struct {
		shapes
		Text *shapes `json:"text_config"`
	}
	if json.Unmarshal(config, &c) != nil || parameters <= 0 {
		return 1
	}
	s := c.shapes
	if c.Text != nil {
		s = *c.Text
	}
	if s.Tied == nil {
		s.Tied = c.Tied
	}
	unread := 0.0
	if s.Tied != nil && !*s.Tied {
		unread = s.Vocabulary * s.HiddenSize
	}
	experts := max(s.Experts, s.LocalExperts, s.RoutedExperts)
	if experts > 0 && s.ActiveExperts > 0 && s.ActiveExperts < experts {
		inner := s.MoEIntermediateSize
		if inner == 0 {
			inner = s.IntermediateSize
		}
		// Three matrices each: gate, up and down.
		unread += 3 * s.HiddenSize * inner * max(s.Layers-s.DenseLayers, 0) *
			(experts - s.ActiveExperts)
	}
	// A config that contradicts the weights must not promise everything.
	const least = 0.01
	return min(max(1-unread/float64(parameters), least), 1)
}
