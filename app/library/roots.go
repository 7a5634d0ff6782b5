package library

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Roots returns the folders to scan, in order and without duplicates: the given ones, those in the
// environment variable HEADROOM_MODELS, Headroom's own, and those of other programs' downloads.
// They need not exist.
func Roots(given []string) []string {
	candidates := append(named(given), Own(), HubCache(), "~/.lmstudio/models",
		"~/.cache/lm-studio/models", "~/.omlx/models", ollamaStore())
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

// named returns the given folders and those in HEADROOM_MODELS.
func named(given []string) []string {
	return slices.Concat(given, filepath.SplitList(os.Getenv("HEADROOM_MODELS")))
}

// Unreadable returns a sentence for every given folder, and every one in HEADROOM_MODELS, that
// cannot be searched. Somebody has named it, so that it is probably misspelled or not mounted.
func Unreadable(given []string) (sentences []string) {
	for _, dir := range named(given) {
		if dir == "" {
			continue
		}
		d, err := os.Open(expandHome(dir))
		if err == nil {
			_, err = d.Readdirnames(1)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			_ = d.Close()
		}
		switch why := new(fs.PathError); {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist):
			sentences = append(sentences, "There is no folder "+dir+" to look for models in.")
		case errors.As(err, &why):
			sentences = append(sentences, fmt.Sprintf("The folder %s cannot be searched for "+
				"models: %v.", dir, why.Err))
		default:
			sentences = append(sentences, fmt.Sprintf("The folder %s cannot be searched for "+
				"models: %v.", dir, err))
		}
	}
	return sentences
}

// Own returns Headroom's own models folder, "models" in Data. Imported models are in it. It is ""
// without a home folder.
func Own() string {
	data := Data()
	if data == "" {
		return ""
	}
	return filepath.Join(data, "models")
}

// Data returns Headroom's data folder: ~/Library/Application Support/Headroom on a Mac, elsewhere
// headroom in XDG_DATA_HOME or ~/.local/share. It is "" without a home folder.
func Data() string {
	data := expandHome("~/Library/Application Support/Headroom")
	if runtime.GOOS != "darwin" {
		if data = os.Getenv("XDG_DATA_HOME"); !filepath.IsAbs(data) {
			data = expandHome("~/.local/share")
		}
		data = filepath.Join(data, "headroom")
	}
	if !filepath.IsAbs(data) {
		return ""
	}
	return data
}

// HubCache returns the folder of Hugging Face's hub cache: HF_HUB_CACHE, HF_HOME/hub, or
// ~/.cache/huggingface/hub.
func HubCache() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return expandHome(dir)
	}
	if home := os.Getenv("HF_HOME"); home != "" {
		return expandHome(filepath.Join(home, "hub"))
	}
	return expandHome("~/.cache/huggingface/hub")
}

// ollamaStore returns the folder of Ollama's models: OLLAMA_MODELS, or ~/.ollama/models.
func ollamaStore() string {
	if dir := os.Getenv("OLLAMA_MODELS"); dir != "" {
		return dir
	}
	return "~/.ollama/models"
}

// expandHome replaces a leading "~/", which shells do not expand inside quotes and lists.
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
