package checkpoint

// Models that compute vectors or scores, without the files of sentence-transformers that say so.

import (
	"path/filepath"
	"slices"
	"strings"

	"headroom/engine/modelfile"
)

// encoders are the architectures that generate no text. Without modules, sentence-transformers takes
// the mean of their hidden states.
var encoders = []string{"bert", "modernbert", "xlm-roberta"}

// isTask reports whether a class of transformers has a head that makes something else than vectors.
func isTask(class string) bool {
	return !strings.HasSuffix(class, "Model") && !strings.HasSuffix(class, "ForMaskedLM")
}

// nameDepth is how many folders of a path may have the name of a model: in the cache of Hugging
// Face it is models--ORG--NAME/snapshots/COMMIT.
const nameDepth = 3

// modulesOf returns the modules that the architectures of a config.json imply, or the name of the
// model's folder. It returns nil if neither does.
//
// The first Qwen3-Reranker has the config of a language model, and so have conversions of
// Qwen3-Embedding. Their names are all that tells.
func (c *Config) modulesOf(dir string) *modelfile.Modules {
	encoder := slices.Contains(encoders, c.ModelType)
	for _, class := range c.Architectures {
		if strings.HasSuffix(class, "ForSequenceClassification") && encoder && c.labels() == 1 {
			return &modelfile.Modules{Task: modelfile.Rerank}
		}
	}
	if encoder && !slices.ContainsFunc(c.Architectures, isTask) {
		return &modelfile.Modules{Task: modelfile.Embed, Pooling: modelfile.PoolMean}
	}
	if c.ModelType != "qwen3" {
		return nil
	}
	for range nameDepth {
		name := strings.ToLower(filepath.Base(dir))
		switch {
		case strings.Contains(name, "qwen3-embedding"):
			return &modelfile.Modules{Task: modelfile.Embed, Pooling: modelfile.PoolLast,
				Normalize: true}
		case strings.Contains(name, "qwen3-reranker"):
			return &modelfile.Modules{Task: modelfile.Rerank, Pooling: modelfile.PoolLast,
				Score: &modelfile.Score{True: new(qwen3Yes), False: new(qwen3No)}}
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// The tokens "yes" and "no" of Qwen3.
const (
	qwen3Yes int32 = 9693
	qwen3No  int32 = 2152
)

// labels returns the number of classes of a classifier.
func (c *Config) labels() int {
	var keys struct {
		Labels map[string]any `json:"id2label"`
		Count  *int           `json:"num_labels"`
	}
	if err := c.Decode(&keys); err != nil {
		return 0
	}
	switch {
	case keys.Labels != nil:
		return len(keys.Labels)
	case keys.Count != nil:
		return *keys.Count
	}
	return 2 // the default of transformers
}
