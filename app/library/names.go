package library

// Classifying files by name: weights, shards, unfinished downloads.

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"headroom/engine/modelfile"
)

const (
	configName   = "config.json"
	weightsExt   = ".safetensors"
	indexName    = "model.safetensors.index.json"
	pipelineName = "model_index.json" // of Diffusers
	ggufExt      = ".gguf"
)

// TrainingRecord is the name of the file that says that a folder is that of a training of Headroom,
// from its beginning on; see app/train.
const TrainingRecord = "headroom_train.json"

func isWeights(name string) bool { return filepath.Ext(name) == weightsExt }

func isGGUF(name string) bool { return strings.EqualFold(filepath.Ext(name), ggufExt) }

// isModelFile reports whether a folder that contains a file of this name may be a model's.
func isModelFile(name string) bool {
	return name == configName || isWeights(name) || isGGUF(name) || isPart(name) ||
		modelfile.IsForeign(name)
}

// partSuffixes are the suffixes of unfinished downloads by Hugging Face's tools, wrappers of wget
// and curl, LM Studio, Chrome, aria2 (whose control file is beside the real one), Safari and
// Ollama.
var partSuffixes = []string{".incomplete", ".part", ".partial", ".crdownload", aria2Suffix,
	".download", ".downloading"}

const (
	aria2Suffix = ".aria2"
	partPrefix  = "downloading_" // LM Studio
)

// partOf returns the final name of an unfinished download; "" for any other name.
func partOf(name string) string {
	for _, suffix := range partSuffixes {
		if whole, ok := strings.CutSuffix(name, suffix); ok && whole != "" {
			return strings.TrimPrefix(whole, partPrefix)
		}
	}
	return ""
}

func isPart(name string) bool { return partOf(name) != "" }

// belongsToModel reports whether name has an extension of a model's files (not, say, of archives).
func belongsToModel(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case weightsExt, ggufExt, ".json", ".jinja", ".txt", ".model", ".bin":
		return true
	}
	return false
}

var (
	shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.safetensors|\.gguf)$`)
	maxShards = 2_000 // bounds the names that siblings generates
)

// siblings returns the names of all shards of a model, given the name of one of them; nil if name
// is not a shard's.
func siblings(name string) []string {
	m := shardName.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	count, err := strconv.Atoi(m[3])
	if err != nil || count < 1 || count > maxShards {
		return nil
	}
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%s%s", m[1], i+1, m[3], m[4])
	}
	return names
}
