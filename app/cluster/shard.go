package cluster

// What mlx-lm divides when it splits a model by tensors. A rank that cannot have an equal part of
// it fails when it loads the model, and would be started again in vain. Source: the functions
// `shard` of mlx-lm's models.

import (
	"encoding/json"
	"fmt"
	"strings"

	"headroom/engine/problem"
)

// divided is what mlx-lm divides among the ranks: the fields of config.json. 0: the model has none.
type divided struct {
	Type        string `json:"model_type"`
	Heads       int    `json:"num_attention_heads"`
	KVHeads     int    `json:"num_key_value_heads"`
	LinearKeys  int    `json:"linear_num_key_heads"`
	LinearHeads int    `json:"linear_num_value_heads"`
	Vocabulary  int    `json:"vocab_size"`
	Tied        bool   `json:"tie_word_embeddings"`
}

// repeats reports whether mlx-lm copies key/value heads if there are more ranks than such heads,
// and divides the vocabulary unless the embeddings are tied.
func (d *divided) repeats() bool { return strings.HasPrefix(d.Type, "qwen3_5") }

// reason says what cannot be divided among so many ranks, or "".
func (d *divided) reason(ranks int) string {
	kv, vocabulary := d.KVHeads, 0
	if d.repeats() {
		if kv > 0 && kv < ranks && ranks%kv == 0 {
			kv = 0
		}
		if !d.Tied {
			vocabulary = d.Vocabulary
		}
	}
	for _, part := range []struct {
		n    int
		name string
	}{
		{d.Heads, "attention heads"},
		{kv, "key/value heads"},
		{d.LinearKeys, "key heads of linear attention"},
		{d.LinearHeads, "value heads of linear attention"},
		{vocabulary, "tokens in its vocabulary"},
	} {
		if part.n%ranks != 0 {
			return fmt.Sprintf("%d %s", part.n, part.name)
		}
	}
	return ""
}

// CheckTensor refuses a number of ranks that cannot have equal parts of every layer of the model
// with this config.json. It refuses nothing that it does not know. The error is a Problem.
func CheckTensor(config []byte, model string, ranks int) error {
	d := divided{}
	all := struct {
		Text *divided `json:"text_config"`
		*divided
	}{&d, &d} // what text_config has counts
	if json.Unmarshal(config, &all) != nil {
		return nil // rank 0 says what is wrong with it
	}
	why := d.reason(ranks)
	if why == "" {
		return nil
	}
	var works []string
	for n := 2; n <= min(max(d.Heads, 2), MaxRanks); n++ {
		if d.reason(n) == "" {
			works = append(works, fmt.Sprint(n))
		}
	}
	fix := "Use --pipeline."
	if len(works) > 0 {
		last := len(works) - 1
		counts := works[last]
		if last > 0 {
			counts = strings.Join(works[:last], ", ") + " or " + counts
		}
		fix = "Use " + counts + " ranks, or --pipeline."
	}
	return notStarted(problem.BadRequest, fix,
		"%d ranks cannot have equal parts of every layer: %s has %s", ranks, model, why)
}
