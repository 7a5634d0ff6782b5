package hub

// Which files of a repository a model needs: those that the engine reads, and what tells people
// about it. Repositories also hold the same weights in other programs' formats, pictures, and the
// files that the weights were made from.

import (
	"path"
	"slices"
	"strings"

	"headroom/engine/problem"
)

// Choose returns the files that a model needs: in order, what describes the weights before them.
// The error is a Problem: there is nothing in the repository that Headroom runs.
func Choose(files []File) ([]File, error) {
	var chosen []File
	modelWeights := slices.ContainsFunc(files,
		func(f File) bool { return isWeights(f.Path) && strings.HasPrefix(f.Path, "model") })
	weights, other := false, ""
	for _, f := range files {
		switch {
		case isWeights(f.Path):
			if modelWeights && !strings.HasPrefix(f.Path, "model") {
				// the same once more, such as consolidated.safetensors
				continue
			}
			weights = true
		case !isSmall(f.Path):
			if format := foreign(f.Path); format != "" {
				other = format
			}
			continue
		}
		chosen = append(chosen, f)
	}
	if !weights {
		why := "it has no .safetensors files"
		if other != "" {
			why = "its weights are in " + other + " format"
		}
		return nil, problem.New(problem.UnknownArchitecture,
			"Headroom cannot run what is in this repository", why,
			"Choose a repository in MLX's or Hugging Face's format.")
	}
	if !slices.ContainsFunc(chosen, func(f File) bool { return f.Path == "config.json" }) {
		return nil, problem.New(problem.UnknownArchitecture, "This repository holds no whole model",
			"it has no config.json", "It may be an adapter: choose the model itself.")
	}
	inOrder(chosen)
	return chosen, nil
}

// Select returns the files of these paths, in order. The error is a Problem: there is no such file.
func Select(files []File, paths []string) ([]File, error) {
	var chosen []File
	for _, p := range paths {
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == p })
		if i < 0 {
			return nil, problem.New(problem.NotFound, "The repository has no file "+p, "",
				"Choose from its files as they are listed now.")
		}
		chosen = append(chosen, files[i])
	}
	inOrder(chosen)
	return slices.Compact(chosen), nil
}

// inOrder puts config.json and the index first, other small files after them, and weights last,
// each by name.
func inOrder(files []File) {
	rank := func(f File) int {
		switch {
		case f.Path == "config.json":
			return 0
		case strings.HasSuffix(f.Path, ".safetensors.index.json"):
			return 1
		case isSmall(f.Path):
			return 2
		}
		return 3
	}
	slices.SortFunc(files, func(a, b File) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a.Path, b.Path)
	})
}

// isWeights tells the weights that the engine reads: those in the repository's own folder.
func isWeights(p string) bool { return path.Ext(p) == ".safetensors" && !strings.Contains(p, "/") }

// isSmall tells what describes a model: configuration, tokenizer, template, licence.
func isSmall(p string) bool {
	if strings.Contains(p, "/") {
		return false
	}
	switch strings.ToLower(path.Ext(p)) {
	case ".json", ".jinja", ".model", ".tiktoken", ".md":
		return true
	case ".txt":
		return p != "requirements.txt"
	case "":
		return strings.HasPrefix(strings.ToUpper(p), "LICENSE") ||
			strings.HasPrefix(strings.ToUpper(p), "NOTICE")
	}
	return false
}

// foreign names the format of weights that the engine does not read; "" for anything else.
func foreign(p string) string {
	switch strings.ToLower(path.Ext(p)) {
	case ".gguf":
		return "GGUF"
	case ".bin", ".pt", ".pth":
		return "PyTorch's"
	case ".onnx":
		return "ONNX"
	case ".h5", ".msgpack":
		return "another program's"
	}
	return ""
}
