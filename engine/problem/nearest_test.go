package problem

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"headroom-demo", "mlx-community/Llama-3.2-3B", "mlx-community/Qwen3-4B-4bit",
		"other/Qwen3-8B", "gemma"}
	for name, want := range map[string]string{
		"qwen3-4b":             "mlx-community/Qwen3-4B-4bit",
		"openai/qwen3-8b":      "other/Qwen3-8B",
		"Gema":                 "gemma",
		"mlx-community/llama3": "mlx-community/Llama-3.2-3B",
	} {
		got := Nearest(name, names)
		if got[0] != want {
			t.Errorf("%q: %q", name, got)
		}
		if slices.Sort(got); len(got) != len(names) {
			t.Errorf("%q: %q", name, got)
		}
	}
	if got := Nearest(strings.Repeat("x", 1<<20), names); len(got) != len(names) {
		t.Errorf("a long name: %q", got)
	}
}
