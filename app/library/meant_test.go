package library

import (
	"strings"
	"testing"
)

// TestMeant checks which models each name stands for, and that a better match leaves out others.
func TestMeant(t *testing.T) {
	models := []Model{{ID: "org/Qwen3-4B", Name: "Qwen3-4B"},
		{ID: "other/Qwen3-4B", Name: "Qwen3-4B"},
		{ID: "org/Gemma", Name: "Gemma", Places: []Place{{ID: "copies/Gemma-2"}},
			Copies: []string{"copies/Gemma-2"}},
		{ID: "llama:latest", Name: "llama:latest"}, {ID: "/models/own/Phi", Name: "Phi"}}
	aliases := func(id string) []string {
		return map[string][]string{"org/Gemma": {"gpt-4o", "claude"},
			"/models/own/Phi": {"Gemma"}, "copies/Gemma-2": {"gpt-copy"}}[id]
	}
	for name, want := range map[string]string{
		"org/Qwen3-4B":               "org/Qwen3-4B",
		"OTHER/qwen3-4b":             "other/Qwen3-4B",
		"qwen3-4b":                   "org/Qwen3-4B other/Qwen3-4B",
		"qwen3-4b:latest":            "org/Qwen3-4B other/Qwen3-4B",
		"openai/org/Qwen3-4B":        "org/Qwen3-4B",
		"hosted_vllm/other/Qwen3-4B": "other/Qwen3-4B",
		"openai/qwen3-4b:LATEST":     "org/Qwen3-4B other/Qwen3-4B",
		"mlx-community/Gemma":        "org/Gemma /models/own/Phi",
		"copies/gemma-2":             "org/Gemma",
		"GPT-4o":                     "org/Gemma",
		"gpt-copy":                   "org/Gemma",
		"anthropic/claude":           "org/Gemma",
		"llama:latest":               "llama:latest",
		"llama":                      "llama:latest",
		"/models/own/Phi":            "/models/own/Phi",
		"gpt-4":                      "",
		"":                           "",
		":latest":                    "",
		"a/b/c/d/e/f/Gemma":          "",
		"qwen3":                      "",
	} {
		var got []string
		for _, m := range Meant(models, name, aliases) {
			got = append(got, m.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got := Meant(models, "claude", nil); got != nil {
		t.Errorf("without aliases: %v", got)
	}
}
