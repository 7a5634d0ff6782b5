package models

// Checkpoints of an architecture that Headroom has, but for another task than to generate text.
// They have the layers of a language model, and another head or none.

import (
	"slices"
	"strings"

	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// tasks maps the ends of the class names of transformers to what such a model is. The first row
// that fits counts.
var tasks = []struct{ suffix, what string }{
	{"ForCausalLM", ""},
	{"ForConditionalGeneration", ""},
	{"LMHeadModel", ""},
	{"ForSequenceClassification", "a classifier or reward model"},
	{"ForTokenClassification", "a classifier of tokens"},
	{"ForQuestionAnswering", "a model that marks answers in a text"},
	{"ForMultipleChoice", "a classifier"},
	{"ForMaskedLM", "a model that fills in masked words"},
	{"ForRewardModel", "a reward model"},
	{"ForProcessRewardModel", "a reward model"},
	{"RewardModel", "a reward model"},
	{"ForRetrieval", "an embedding model"},
	{"ForEmbedding", "an embedding model"},
	{"ForImageClassification", "an image classifier"},
	{"ForAudioClassification", "a classifier of sound"},
	// Custom code of multimodal models ends so, and generates text.
	{"ChatModel", ""},
	{"Model", "an embedding model, or a part of another model"},
}

// checkTask returns a Problem if the architectures in config.json name only classes of another
// task, or if the model sees the tokens that follow. A class that tasks does not have may be a
// language model.
func checkTask(c *checkpoint.Config) error {
	refused := func(what, why string) error {
		return problem.New(problem.UnknownArchitecture, "This is "+what+", not a language model",
			why, "Pick a language model. Headroom runs nothing else.")
	}
	what := ""
	for _, class := range c.Architectures {
		row := slices.IndexFunc(tasks, func(t struct{ suffix, what string }) bool {
			return strings.HasSuffix(class, t.suffix)
		})
		if row < 0 || tasks[row].what == "" {
			what = ""
			break
		}
		what = tasks[row].what
	}
	if what != "" {
		return refused(what, "architectures in config.json has "+
			strings.Join(excerpts(c.Architectures), ", "))
	}
	var causal struct {
		Is *bool `json:"is_causal"`
	}
	if err := c.Decode(&causal); err == nil && causal.Is != nil && !*causal.Is {
		return refused("an embedding model", "is_causal in config.json is false")
	}
	return nil
}

// excerpts returns the beginning of at most a few texts.
func excerpts(texts []string) (short []string) {
	const most = 4
	for _, text := range texts[:min(len(texts), most)] {
		short = append(short, modelfile.Excerpt(text))
	}
	return short
}
