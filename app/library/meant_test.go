package library

import (
	"errors"
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
		"mlx-community/Gemma":        "org/Gemma",
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
	why := NotFound("gpt-4", models, aliases).Why
	if !strings.HasPrefix(why, "the models are gpt-4o, gpt-copy, ") ||
		strings.Contains(why, ", Gemma,") || strings.Count(why, "/models/own/Phi") != 1 {
		t.Errorf("names offered for gpt-4: %s", why) // the alias Gemma has no effect
	}
	if got := Meant(models, "claude", nil); got != nil {
		t.Errorf("without aliases: %v", got)
	}
}

// TestOwnNamesFirst: an alias that is the ID or the name of another model has no effect, however
// the name is spelled, unless that model is one of Ollama's, which cannot run here. Each such
// alias, and one of two models, has a sentence.
func TestOwnNamesFirst(t *testing.T) {
	damaged := errors.New("damaged")
	models := []Model{{ID: "org/alpha", Name: "alpha"}, {ID: "org/beta", Name: "beta"},
		{ID: "two/beta", Name: "beta"}, {ID: "one/both", Name: "both", State: Broken, Err: damaged},
		{ID: "two/both", Name: "both"}, {ID: "both", Name: "both"}, {ID: "ORG/BETA", Name: "BETA"},
		{ID: "one/half", Name: "half", State: Downloading, Err: damaged},
		{ID: "two/half", Name: "half"},
		{ID: "qwen:latest", Name: "qwen:latest", State: NotLoadable, Err: damaged}}
	aliases := func(id string) []string {
		return map[string][]string{
			"org/alpha": {"org/beta", "two/BETA:latest", "half", "qwen", "shared", "mine"},
			"two/beta":  {"Shared", "beta"}}[id]
	}
	for name, want := range map[string]string{
		"org/beta": "org/beta ", "org/beta:latest": "org/beta ORG/BETA ", "ORG/BETA": "ORG/BETA ",
		"Org/Beta": "org/beta ORG/BETA ", "x/org/beta": "org/beta ",
		"two/beta:latest": "two/beta ", "openai/TWO/beta": "two/beta ",
		"beta": "org/beta two/beta ORG/BETA ", "both": "both ", "BOTH:latest": "both ",
		"half": "two/half one/half ", "qwen": "org/alpha ", "qwen:latest": "org/alpha ",
		"shared": "org/alpha two/beta ", "mine:latest": "org/alpha ",
	} {
		got := ""
		for _, m := range Meant(models, name, aliases) {
			got += m.ID + " "
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	want := `"org/beta" of org/alpha means org/beta, whose name it is
"two/BETA:latest" of org/alpha means two/beta, whose name it is
"half" of org/alpha means two/half, whose name it is
"Shared" of two/beta means org/alpha, which has it, too
"beta" of two/beta means org/beta, whose name it is`
	if got := strings.Join(WithoutEffect(models, aliases), "\n"); got != want {
		t.Errorf("without effect:\n%s\nwant\n%s", got, want)
	}
}
