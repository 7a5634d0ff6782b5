package library

// What a file's name alone tells: weights, a shard among others, a part of a download.

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	configName = "config.json"
	weightsExt = ".safetensors"
	indexName  = "model.safetensors.index.json"
	ggufExt    = ".gguf"
)

func isWeights(name string) bool { return filepath.Ext(name) == weightsExt }

func isGGUF(name string) bool { return strings.EqualFold(filepath.Ext(name), ggufExt) }

// isForeignWeights tells weights that other programs run: PyTorch's pickles, ONNX, TensorFlow's.
func isForeignWeights(name string) bool {
	switch filepath.Ext(name) {
	case ".bin", ".pt", ".pth", ".onnx", ".h5":
		return true
	}
	return false
}

// isModelFile tells what makes a folder worth a closer look.
func isModelFile(name string) bool {
	return name == configName || isWeights(name) || isGGUF(name) || isPart(name)
}

// partSuffixes are those that programs give to files which are still on their way: Hugging Face's
// tools, wget and curl's wrappers, LM Studio, Chrome, aria2 (its control file lies beside the real
// one), Safari, Ollama.
var partSuffixes = []string{".incomplete", ".part", ".partial", ".crdownload", aria2Suffix,
	".download", ".downloading"}

const (
	aria2Suffix = ".aria2"
	partPrefix  = "downloading_" // LM Studio
)

// partOf tells the name that a part will have when it is whole; "" when the name is not a part's.
func partOf(name string) string {
	for _, suffix := range partSuffixes {
		if whole, ok := strings.CutSuffix(name, suffix); ok && whole != "" {
			return strings.TrimPrefix(whole, partPrefix)
		}
	}
	return ""
}

func isPart(name string) bool { return partOf(name) != "" }

// belongsToModel tells files that models consist of, from the archive that somebody saved beside
// them.
func belongsToModel(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case weightsExt, ggufExt, ".json", ".jinja", ".txt", ".model", ".bin":
		return true
	}
	return false
}

var (
	shardName     = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.safetensors|\.gguf)$`)
	mostShards    = 2_000 // names are made up from a number in a file's name
	shardNameForm = "00000"
)

// siblings are the names of all shards of the set that the name belongs to, itself included; nil if
// it is no shard.
func siblings(name string) []string {
	m := shardName.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	count, err := strconv.Atoi(m[3])
	if err != nil || count < 1 || count > mostShards {
		return nil
	}
	names := make([]string, count)
	for i := range names {
		number := strconv.Itoa(i + 1)
		names[i] = m[1] + "-" + shardNameForm[:5-len(number)] + number + "-of-" + m[3] + m[4]
	}
	return names
}
