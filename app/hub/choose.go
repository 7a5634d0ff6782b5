package hub

// The files of a repository that a model needs: those that the engine reads, and its README and
// license. Repositories also have the weights in other formats, pictures, and sources.

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"headroom/engine/problem"
)

// Choose returns the files that a model needs, weights last. The error is a Problem: the repository
// has nothing that Headroom can run.
func Choose(files []File) ([]File, error) {
	var chosen []File
	modelWeights := slices.ContainsFunc(files,
		func(f File) bool { return isWeights(f.Path) && strings.HasPrefix(f.Path, "model") })
	weights, other := false, ""
	for _, f := range files {
		switch {
		case isModule(f.Path):
		case isWeights(f.Path):
			if modelWeights && !strings.HasPrefix(f.Path, "model") {
				continue // duplicates, such as consolidated.safetensors
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
			"Headroom cannot run the model in this repository", why,
			"Choose a repository in MLX's or Hugging Face's format.")
	}
	if !slices.ContainsFunc(chosen, func(f File) bool { return f.Path == "config.json" }) {
		return nil, problem.New(problem.UnknownArchitecture,
			"This repository has no complete model",
			"it has no config.json", "It may be an adapter: choose the model itself.")
	}
	sortFiles(chosen)
	return chosen, nil
}

// Select returns the files at these paths, weights last. The error is a Problem: a file is missing.
func Select(files []File, paths []string) ([]File, error) {
	var chosen []File
	for _, p := range paths {
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == p })
		if i < 0 {
			return nil, problem.New(problem.NotFound, "The repository has no file "+p, "",
				"Choose from the list of its files.")
		}
		chosen = append(chosen, files[i])
	}
	sortFiles(chosen)
	return slices.Compact(chosen), nil
}

// sortFiles sorts config.json and the index first, then other small files, then weights, each by
// name.
func sortFiles(files []File) {
	rank := func(f File) int {
		switch {
		case f.Path == "config.json":
			return 0
		case strings.HasSuffix(f.Path, ".safetensors.index.json"):
			return 1
		case isSmall(f.Path) || isModule(f.Path) && !strings.HasSuffix(f.Path, ".safetensors"):
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

// isWeights reports whether p is a weights file in the top folder. The engine reads no others.
func isWeights(p string) bool { return path.Ext(p) == ".safetensors" && !strings.Contains(p, "/") }

// moduleFile is a file of a module of sentence-transformers, such as 1_Pooling/config.json.
var moduleFile = regexp.MustCompile(`^[0-9]+_[A-Za-z]+/(config\.json|model\.safetensors)$`)

// isModule reports whether p says or computes what becomes of the hidden states of an embedding
// model.
func isModule(p string) bool { return moduleFile.MatchString(p) }

// isSmall reports whether p is one of the small files that describe the model: configuration,
// tokenizer, template, license.
func isSmall(p string) bool {
	if dir, name, ok := strings.Cut(p, "/"); ok {
		return dir == "additional_chat_templates" && path.Ext(name) == ".jinja"
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

// foreign returns the format of weights that the engine cannot read; "" for other files.
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
