package textproc

// The tokens that end an answer. The rule is mlx-lm's (load_config and TokenizerWrapper):
//
//   - the ids of eos_token_id in generation_config.json, or, if it has none, in config.json
//   - and eos_token of the tokenizer, whatever these files say
//
// In addition, Headroom reads the eos_token_id of text_config, and ends an answer at the end tags
// of the template's tool calls, such as <|call|>.

import (
	"headroom/engine/checkpoint"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// readEOS sets the tokens that end an answer, except for those of the template; see readTags.
// beside is what tokenizer_config.json says.
func (p *Processor) readEOS(config *checkpoint.Config, beside *tokenizer.Config) {
	p.addEOS(p.defaults.EOSTokenIDs)
	if len(p.defaults.EOSTokenIDs) == 0 {
		for _, value := range config.EOSTokenIDs() {
			d, err := sample.FromGenerationConfig([]byte(`{"eos_token_id":` + string(value) + `}`))
			if err == nil {
				p.addEOS(d.EOSTokenIDs)
			}
		}
	}
	if id, ok := p.tokenizer.TokenID(beside.Special["eos_token"]); ok {
		p.addEOS([]int32{id})
	}
}

func (p *Processor) addEOS(ids []int32) {
	for _, id := range ids {
		p.eos[id] = true
	}
}
