package checkpoint

// The quantization of ModelOpt: FP8 or NVFP4. It is in config.json, or in a file beside it.

import (
	"encoding/json"
	"fmt"
	"strings"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/kernels"
)

// modelOptFile is the file that states the quantization if config.json does not.
const modelOptFile = "hf_quant_config.json"

// modelOptAlgorithms maps each supported quant_algo to its packing.
var modelOptAlgorithms = map[string]pack{
	"FP8":   {Mode: kernels.FP8, Bits: 8},
	"NVFP4": modes[kernels.NVFP4.String()],
}

// parseModelOpt parses a quantization_config of ModelOpt, or hf_quant_config.json, which has the
// same keys in an object of its own.
func parseModelOpt(q *Quantization, data json.RawMessage) error {
	type settings struct {
		Algorithm string `json:"quant_algo"`
	}
	var c struct {
		settings
		Inner *settings `json:"quantization"`
	}
	if err := modelfile.Decode(q.key, data, &c); err != nil {
		return q.damaged(err)
	}
	if c.Inner != nil {
		c.settings = *c.Inner
	}
	p, ok := modelOptAlgorithms[strings.ToUpper(c.Algorithm)]
	if !ok {
		if c.Algorithm == "" {
			return refuseModelOpt("it has no quant_algo, expected FP8 or NVFP4")
		}
		return refuseModelOpt(fmt.Sprintf("its quant_algo is %q, expected FP8 or NVFP4",
			modelfile.Excerpt(c.Algorithm)))
	}
	q.pack = p
	return nil
}

// readModelOpt reads the quantization of a model whose config.json has none.
func (s Source) readModelOpt(c *Config) error {
	if key, _ := quantizationIn(c.keys); key != "" || !s.Has(modelOptFile) {
		return nil
	}
	c.Quantization.file = modelOptFile
	data, err := s.ReadFile(modelOptFile)
	if err != nil {
		return problem.Wrap(problem.ModelBroken, err, modelOptFile+" cannot be read",
			"Download or convert the model again.")
	}
	return parseModelOpt(&c.Quantization, data)
}
