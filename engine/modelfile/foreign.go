package modelfile

// Folders that hold something else than a language model with weights in safetensors. Their files
// are complete and correct, so a person must not be told that they are damaged.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"headroom/engine/problem"
)

const (
	runnable = "Pick another model: Headroom runs language models, embedding models and " +
		"rerankers."
	convert = "Import it to convert it to MLX's format: drop the file on Headroom's window, or " +
		"use `headroom models import FILE`."
	download = "Download the model in MLX's or Hugging Face's format: a folder of " +
		".safetensors files."
)

// maxNames bounds how many names of a folder Foreign looks at.
const maxNames = 20_000

// Foreign returns a Problem that says what the folder dir holds, if it is something that Headroom
// does not run: an adapter, a diffusion model, or weights in another format. It returns nil if the
// files do not tell. The caller has found that the folder has no config.json that it can use, or no
// weights. Foreign opens only small files that describe the folder.
func Foreign(dir string) *problem.Problem {
	c := contents{dir, readNames(dir)}
	for _, kind := range []func(contents) *problem.Problem{adapter, diffusion, otherFormat,
		otherNames} {
		if p := kind(c); p != nil {
			return p
		}
	}
	return nil
}

// IsForeign reports whether a folder that has a file or folder of this name is likely to be a
// model of a kind that Foreign knows.
func IsForeign(name string) bool { return IsWhole(name) || formatOf(name) >= 0 }

// IsWhole reports whether a folder that has a file of this name is one model, whatever its
// subfolders contain.
func IsWhole(name string) bool { return name == adapterConfig || name == pipelineConfig }

// IsModelWeights reports whether a file of this name has a language model's weights.
func IsModelWeights(name string) bool { return matches(name, weightNames) }

// Format returns the Problem of a model in another format, such as GGUF. more, if it is not empty,
// is a fact to add.
func Format(format, more string) *problem.Problem {
	why, fix := "Headroom runs .safetensors", download
	if format == "GGUF" {
		fix = convert
	}
	if more != "" {
		why += "; " + more
	}
	return problem.New(problem.UnknownArchitecture, "This model is in "+format+" format", why, fix)
}

// contents are the names in a folder.
type contents struct {
	dir   string
	names []string // sorted, without hidden ones
}

// readNames returns the names in a folder. It returns none if the folder cannot be read.
func readNames(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxNames)
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(name, ".")
	})
	slices.Sort(names)
	return names
}

// first returns the first name that matches one of the patterns, "" if none does.
func (c contents) first(patterns ...string) string {
	for _, name := range c.names {
		if matches(name, patterns...) {
			return name
		}
	}
	return ""
}

// matches reports whether name, in any case, matches one of the patterns, which are in lower case.
// A pattern has at most one star, which stands for any text.
func matches(name string, patterns ...string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		start, end, star := strings.Cut(pattern, "*")
		if !star {
			return name == pattern
		}
		return len(name) >= len(start)+len(end) && strings.HasPrefix(name, start) &&
			strings.HasSuffix(name, end)
	})
}

// keys returns the keys of a JSON file. It returns nil if the file cannot be read.
func (c contents) keys(name string) map[string]json.RawMessage {
	data, err := Read(filepath.Join(c.dir, name))
	if err != nil {
		return nil
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) != nil {
		return nil
	}
	return keys
}

// text returns the string that the first of keys has which is one, "" if none is.
func text(all map[string]json.RawMessage, keys ...string) string {
	for _, key := range keys {
		var value string
		if json.Unmarshal(all[key], &value) == nil && value != "" {
			return Excerpt(value)
		}
	}
	return ""
}

const (
	weightNames    = "model*.safetensors" // of a language model
	adapterConfig  = "adapter_config.json"
	pipelineConfig = "model_index.json"
)

// adapterName is the name of a kind of adapter, as PEFT spells it.
var adapterName = regexp.MustCompile(`^[A-Za-z0-9_]{1,20}$`)

// adapter recognizes what fine-tuning with PEFT or mlx-lm writes.
func adapter(c contents) *problem.Problem {
	if c.first(weightNames) != "" || c.first(adapterConfig, "adapters.safetensors",
		"*_adapters.safetensors", "adapter_model.safetensors", "adapter_model.bin",
		"adapters.npz", "*lora_weights.safetensors", "*lora.safetensors") == "" {
		return nil
	}
	keys := c.keys(adapterConfig)
	what, kind := "an adapter", text(keys, "peft_type", "fine_tune_type")
	switch strings.ToLower(kind) {
	case "lora", "":
		what = "a LoRA adapter"
		if string(keys["use_dora"]) == "true" {
			what = "a DoRA adapter"
		}
	case "dora":
		what = "a DoRA adapter"
	case "full":
		what = "a set of fine-tuned layers"
	default:
		if adapterName.MatchString(kind) {
			what = "an adapter (" + kind + ")"
		}
	}
	why := "it does not say which model it belongs to"
	if base := text(keys, "base_model_name_or_path", "model"); base != "" {
		why = "it belongs to the model " + base
	}
	return problem.New(problem.UnknownArchitecture, "This is "+what+", not a whole model", why,
		"Fuse it with its model first, by headroom fuse, and open the result.")
}

// diffusion recognizes the pipelines of Diffusers, and their parts.
func diffusion(c contents) *problem.Problem {
	switch {
	case c.first(pipelineConfig) != "":
		why := ""
		if class := text(c.keys(pipelineConfig), "_class_name"); class != "" {
			why = pipelineConfig + " describes a " + class
		}
		return problem.New(problem.UnknownArchitecture,
			"This is a diffusion model, which makes images, video or sound", why, runnable)
	case c.first("diffusion_pytorch_model*") != "":
		return problem.New(problem.UnknownArchitecture, "This is a part of a diffusion model", "",
			runnable)
	}
	return nil
}

const mistralFormat = "Mistral's own"

// formats are other formats of weights, by patterns of the names that only they have. The order
// matters: a name may match several.
var formats = []struct {
	name     string
	patterns []string
}{
	{"GGUF", []string{"*.gguf"}},
	{"GGML", []string{"ggml*.bin"}},
	{"MLC", []string{"mlc-chat-config.json", "params_shard_*.bin"}},
	{mistralFormat, []string{"consolidated*.safetensors"}},
	{"Core ML", []string{"*.mlpackage", "*.mlmodelc", "*.mlmodel"}},
	{"ONNX", []string{"*.onnx", "*.ort"}},
	{"OpenVINO", []string{"openvino_*.xml", "openvino_*.bin"}},
	{"LiteRT", []string{"*.tflite", "*.litertlm"}},
	{"NumPy", []string{"weights*.npz", "model*.npz"}},
	{"NeMo", []string{"*.nemo"}},
	{"PyTorch", []string{"pytorch_model*.bin", "model*.bin", "*.pth", "*.pt", "*.ckpt"}},
	{"TensorFlow", []string{"tf_model*.h5", "*.keras", "saved_model.pb"}},
	{"Flax", []string{"flax_model*.msgpack"}},
}

// trainingState are names of files that training leaves beside weights of any format.
var trainingState = []string{"optimizer*", "scheduler*", "scaler*", "rng_state*", "training_args*"}

// formatOf returns the index in formats of the weights in the file or folder name, or a negative
// number if name is none of these.
func formatOf(name string) int {
	if matches(name, trainingState...) {
		return -1
	}
	for i, format := range formats {
		if matches(name, format.patterns...) {
			return i
		}
	}
	return -1
}

// otherFormat recognizes weights in another format, if there are none of the usual names.
func otherFormat(c contents) *problem.Problem {
	if c.first(weightNames) != "" {
		return nil
	}
	found, file := len(formats), ""
	for _, name := range c.names {
		if i := formatOf(name); 0 <= i && i < found {
			found, file = i, name
		}
	}
	switch {
	case found == len(formats):
	case formats[found].name == mistralFormat:
		return problem.New(problem.UnknownArchitecture, "This model is in "+mistralFormat+" format",
			fmt.Sprintf("its weights are in %s, expected %s", Excerpt(file), weightNames), download)
	default:
		return Format(formats[found].name, "")
	}
	if c.first("onnx") != "" { // where conversions for browsers are
		if (contents{names: readNames(filepath.Join(c.dir, "onnx"))}).first("*.onnx") != "" {
			return Format("ONNX", "")
		}
	}
	return nil
}

// otherNames recognizes weights in safetensors whose names no language model has.
func otherNames(c contents) *problem.Problem {
	name := c.first("*.safetensors")
	if name == "" || c.first(weightNames) != "" {
		return nil
	}
	return problem.New(problem.UnknownArchitecture,
		"This folder has no language model that Headroom can run",
		fmt.Sprintf("it has %s, expected %s", Excerpt(name), weightNames),
		"Choose the folder of a language model in MLX's or Hugging Face's format.")
}
