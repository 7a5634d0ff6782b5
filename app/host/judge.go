package host

// What a model of the hub would mean for this machine, before it is downloaded. Its config.json has
// the shapes, so what it needs comes from the same dry run as for a model on disk, and the list
// says the same once it is downloaded.

import (
	"encoding/json"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/problem"
)

// Judgement says what a model would need here. If NeedBytes is 0, nothing is known, and Fits is No.
type Judgement struct {
	Quantization  string     `json:"quantization"`
	Parameters    int64      `json:"parameters"` // 0: unknown
	ContextTokens int        `json:"contextTokens"`
	NeedBytes     int64      `json:"needBytes"` // the sum of Need; 0: unknown
	Need          NeedParts  `json:"need"`
	Fits          memory.Fit `json:"fits"` // into RoomBytes of the list of models
	// TokensPerSecond is the decode speed to expect; 0: unknown.
	TokensPerSecond float64 `json:"tokensPerSecond"`
}

// Judge returns what the model with this ID, config.json and size of its weights would need; 0: the
// size is not known. The error is a Problem: the model cannot be run, or judged.
func (h *Host) Judge(id string, config []byte, weightsBytes int64) (Judgement, error) {
	o := h.engineOptions(id)
	d, err := library.DescribeSource(engine.Random(config), o)
	if err != nil && problem.From(err).Code == problem.BadRequest && weightsBytes > 0 {
		// A dry run has packed weights only. Those of a model in 16 bits have the size that the hub
		// says; all else does not depend on them.
		packed, format := packedConfig(config)
		if d, err = library.DescribeSource(engine.Random(packed), o); err == nil {
			d.Need.WeightsBytes, d.Quantization, d.Plain = weightsBytes, format, nil
		}
	}
	if err != nil {
		return Judgement{}, err
	}
	_, _, room := h.readMemory()
	return judge(config, d, room, memory.BandwidthBytes()), nil
}

// packedConfig returns a config.json with a quantization in place of 16-bit weights, and their
// format.
func packedConfig(config []byte) (packed []byte, format string) {
	fields := map[string]any{}
	if json.Unmarshal(config, &fields) != nil {
		return config, ""
	}
	fields["quantization"] = map[string]int{"bits": 8, "group_size": 32}
	packed, _ = json.Marshal(fields) // what was just parsed can be written
	text, _ := fields["text_config"].(map[string]any)
	for _, named := range []any{fields["torch_dtype"], fields["dtype"], text["torch_dtype"],
		text["dtype"]} {
		if name, ok := named.(string); ok {
			return packed, name
		}
	}
	return packed, ""
}

func judge(config []byte, d engine.Description, roomBytes int64,
	bandwidthBytes float64) Judgement {
	need := needOf(d, nil, roomBytes, 0)
	j := Judgement{Quantization: d.Quantization, Parameters: d.Parameters,
		ContextTokens: d.ContextTokens, NeedBytes: need.TotalBytes(), Need: need,
		Fits: memory.Fits(need.TotalBytes(), roomBytes)}
	if d.Task == "" {
		j.TokensPerSecond = decodeSpeed(config, d, need.WeightsBytes, bandwidthBytes)
	}
	return j
}
