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

// otherModel is the advice of a model that is for something else.
const otherModel = "Pick another model: Headroom runs language models, embedding models and " +
	"rerankers."

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

// checkBare returns a Problem if the tensors of the decoder are at the root of the checkpoint. A
// model without a head has them there: an embedding model, or one that drafts for another model.
// An embedding model with modules has passed.
func checkBare(w *checkpoint.Weights) error {
	refused := func(what, why string) error {
		return problem.New(problem.UnknownArchitecture, "This is "+what+", not a language model",
			why, otherModel)
	}
	root := w.At("")
	has := func(s checkpoint.Scope, name string) bool { return len(s.Shape(name)) > 0 }
	for _, name := range []string{"d2t", "t2d", "midlayer.mlp.gate_proj.weight"} {
		if has(root, name) {
			return refused("a draft model for another model", "it has the tensor "+name)
		}
	}
	if has(textWeights(w).model, "embed_tokens.weight") || !has(root, "embed_tokens.weight") ||
		w.Config.Modules != nil {
		return nil
	}
	return refused("an embedding model, or a part of another model",
		"it has the tensor embed_tokens.weight, expected model.embed_tokens.weight")
}

// checkTask returns a Problem if the architectures in config.json name only classes of another
// task, or if the model sees the tokens that follow. A class that tasks does not have may be a
// language model.
func checkTask(c *checkpoint.Config) error {
	refused := func(what, why string) error {
		return problem.New(problem.UnknownArchitecture, "This is "+what+", not a language model",
			why, otherModel)
	}
	what := ""
	for _, class := range c.Architectures {
		if c.Modules != nil { // they tell
			break
		}
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
	for _, class := range c.Architectures {
		if strings.Contains(strings.ToLower(class), "eagle") {
			return refused("a draft model for another model", "architectures in config.json has "+
				modelfile.Excerpt(class))
		}
	}
	var causal struct {
		Is *bool `json:"is_causal"`
	}
	if err := c.Decode(&causal); err == nil && causal.Is != nil && !*causal.Is {
		if c.Modules != nil {
			return problem.New(problem.UnknownArchitecture,
				"Headroom cannot run this variant of an embedding model",
				"is_causal in config.json is false, so that tokens see those that follow, in an "+
					"architecture of language models", "Pick another model.")
		}
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
