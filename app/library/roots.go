package library

import (
	"os"
	"path/filepath"
	"strings"
)

// Roots returns the folders to look through, in order and without repetition: those given, those of the environment variable
// HEADROOM_MODELS, and where other programs keep their downloads. They need not exist.
func Roots(given []string) []string {
	candidates := append([]string{}, given...)
	candidates = append(candidates, filepath.SplitList(os.Getenv("HEADROOM_MODELS"))...)
	candidates = append(candidates, hubCache(), "~/.lmstudio/models", "~/.cache/lm-studio/models", "~/.omlx/models", ollamaStore())
	var roots []string
	seen := map[string]bool{}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		dir, err := filepath.Abs(expandHome(c))
		if err == nil && !seen[dir] {
			seen[dir] = true
			roots = append(roots, dir)
		}
	}
	return roots
}

// hubCache is where Hugging Face's tools keep models: HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub.
func hubCache() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if home := os.Getenv("HF_HOME"); home != "" {
		return filepath.Join(home, "hub")
	}
	return "~/.cache/huggingface/hub"
}

// ollamaStore is where Ollama keeps models: OLLAMA_MODELS, or ~/.ollama/models.
func ollamaStore() string {
	if dir := os.Getenv("OLLAMA_MODELS"); dir != "" {
		return dir
	}
	return "~/.ollama/models"
}

// expandHome replaces a leading "~/", which a shell leaves alone inside quotes and lists.
func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, rest)
}
