package models_test

import (
	"strings"
	"testing"

	"headroom/engine/problem"
	"headroom/kernels"
)

// TestOtherTasks: a checkpoint with the layers of a language model and another head is refused.
func TestOtherTasks(t *testing.T) {
	d := kernels.NewDryRun()
	original := readTiny(t, "qwen3")
	for _, c := range []struct{ keys, says string }{
		{`"architectures": ["Qwen3ForSequenceClassification"]`,
			"This is a classifier or reward model, not a language model: architectures in " +
				"config.json has Qwen3ForSequenceClassification. Pick another model: Headroom " +
				"runs language models, embedding models and rerankers."},
		{`"architectures": ["Qwen3ForTokenClassification"]`, "a classifier of tokens"},
		{`"architectures": ["Qwen3ForQuestionAnswering"]`, "marks answers"},
		{`"architectures": ["Qwen2ForRewardModel"]`, "a reward model"},
		{`"architectures": ["Qwen2ForProcessRewardModel"]`, "a reward model"},
		{`"architectures": ["Qwen3Model"]`, "an embedding model"},
		{`"architectures": ["Gemma3TextModel"]`, "an embedding model"},
		{`"architectures": ["Qwen3Model", "Qwen3ForSequenceClassification"]`, "reward model"},
		{`"architectures": ["Qwen3ForCausalLM"], "is_causal": false`,
			"is_causal in config.json is false"},
		{`"model_type": "bert", "architectures": ["BertForTokenClassification"]`,
			"a classifier of tokens"},
		{`"model_type": "modernbert", "architectures": ["ModernBertForSequenceClassification"]`,
			"a classifier or reward model"},
		{`"model_type": "bert", "architectures": ["BertForPreTraining"]`,
			"its model_type is bert"},
		{`"architectures": ["Qwen3ForCausalLM"]`, ""},
		{`"architectures": ["Qwen3Model", "Qwen3ForCausalLM"]`, ""},
		{`"architectures": ["Qwen3VLForConditionalGeneration"]`, ""},
		{`"architectures": ["GPT2LMHeadModel"]`, ""},
		{`"architectures": ["InternVLChatModel"]`, ""},
		{`"architectures": ["MyOwnQwen"]`, ""},
		{`"architectures": null`, ""},
		{`"architectures": []`, ""},
		{`"architectures": "Qwen3Model"`, ""},
		{`"architectures": 7, "is_causal": null`, ""},
		{`"is_causal": true`, ""},
	} {
		err := original.with(t, c.keys).open(t, d)
		if c.says == "" && err != nil || c.says != "" && (err == nil ||
			problem.From(err).Code != problem.UnknownArchitecture ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, expected %q", c.keys, err, c.says)
		}
	}
	f := original
	f.config = nested("qwen3_vl", strings.Replace(original.config, `"Qwen3ForCausalLM"`,
		`"Qwen3Model"`, 1))
	if err := f.open(t, d); err != nil {
		t.Errorf("architectures in text_config: %v", err)
	}
}
