package modelfile

import (
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

// reader returns a function that reads files from a map.
func reader(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
}

const (
	transformer = `{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}`
	pooling     = `{"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}`
	normalizer  = `{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}`
	dense       = `{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}`
	logitScore  = `{"path": "1_LogitScore",
		"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}`
	crossEncoder = `{"model_type": "CrossEncoder"}`
)

func TestReadModules(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  *Modules
	}{
		{"a language model", map[string]string{"config.json": "{}"}, nil},
		{"another program's modules.json", map[string]string{"modules.json": `{"a": 1}`}, nil},
		{"another program's list", map[string]string{"modules.json": `[{"type": "a.B"}]`}, nil},
		{"bge", map[string]string{
			"modules.json":              "[" + transformer + "," + pooling + "," + normalizer + "]",
			"1_Pooling/config.json":     `{"pooling_mode_cls_token": true}`,
			"sentence_bert_config.json": `{"max_seq_length": 512}`},
			&Modules{Task: Embed, Pooling: PoolFirst, Normalize: true, MaxTokens: 512}},
		{"Qwen3-Embedding", map[string]string{
			"modules.json":                      "[" + transformer + "," + pooling + "]",
			"1_Pooling/config.json":             `{"pooling_mode": "lasttoken"}`,
			"config_sentence_transformers.json": `{"model_type": "SentenceTransformer"}`},
			&Modules{Task: Embed, Pooling: PoolLast}},
		{"without modules.json", map[string]string{"1_Pooling/config.json": `{}`},
			&Modules{Task: Embed, Pooling: PoolMean}},
		{"one mode in a list", map[string]string{
			"1_Pooling/config.json": `{"pooling_mode": ["cls"], "pooling_mode_mean_tokens": true}`},
			&Modules{Task: Embed, Pooling: PoolFirst}},
		{"EmbeddingGemma", map[string]string{
			"modules.json":          "[" + transformer + "," + pooling + "," + dense + "]",
			"1_Pooling/config.json": `{"pooling_mode_mean_tokens": true}`,
			"2_Dense/config.json": `{"in_features": 768, "out_features": 3072, "bias": false,
				"activation_function": "torch.nn.modules.linear.Identity"}`},
			&Modules{Task: Embed, Pooling: PoolMean, Dense: []Dense{{Path: "2_Dense", In: 768,
				Out: 3072, Activation: "torch.nn.modules.linear.Identity"}}}},
		{"Qwen3-Reranker", map[string]string{
			"modules.json":                      "[" + transformer + "," + logitScore + "]",
			"1_LogitScore/config.json":          `{"true_token_id": 7, "false_token_id": 5}`,
			"config_sentence_transformers.json": crossEncoder},
			&Modules{Task: Rerank, Pooling: PoolLast,
				Score: &Score{True: new(int32(7)), False: new(int32(5))}}},
		{"a classifier", map[string]string{"modules.json": "[" + transformer + "]",
			"config_sentence_transformers.json": crossEncoder}, &Modules{Task: Rerank}},
	} {
		got, err := ReadModules(reader(c.files))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.name, got, err, c.want)
		}
	}
}

func TestReadModulesRefuses(t *testing.T) {
	listed := func(modules ...string) string { return "[" + strings.Join(modules, ",") + "]" }
	pooled := `{"pooling_mode_mean_tokens": true}`
	for _, c := range []struct {
		name  string
		files map[string]string
		says  string
	}{
		{"no pooling", map[string]string{"modules.json": listed(transformer)},
			"modules.json has no Pooling"},
		{"another module", map[string]string{"modules.json": listed(transformer,
			`{"path": "1_X", "type": "sentence_transformers.models.CLIPModel"}`)},
			"modules.json has the module CLIPModel"},
		{"two modes", map[string]string{"modules.json": listed(transformer, pooling),
			"1_Pooling/config.json": `{"pooling_mode_mean_tokens": true,
				"pooling_mode_cls_token": true}`}, "has the pooling cls, mean, expected one"},
		{"the largest values", map[string]string{
			"1_Pooling/config.json": `{"pooling_mode": "max"}`}, "has the pooling max"},
		{"a path outside", map[string]string{"modules.json": listed(transformer,
			`{"path": "../x", "type": "sentence_transformers.models.Pooling"}`)}, "the path ../x"},
		{"an absolute path", map[string]string{"modules.json": listed(transformer,
			`{"path": "/etc", "type": "sentence_transformers.models.Pooling"}`)}, "the path /etc"},
		{"no transformer", map[string]string{"modules.json": listed(pooling)}, "module 0"},
		{"an activation", map[string]string{"modules.json": listed(transformer, pooling, dense),
			"1_Pooling/config.json": pooled,
			"2_Dense/config.json":   `{"activation_function": "torch.nn.ReLU"}`}, "torch.nn.ReLU"},
		{"a residual", map[string]string{"modules.json": listed(transformer, pooling, dense),
			"1_Pooling/config.json": pooled,
			"2_Dense/config.json":   `{"use_residual": true}`}, "use_residual true"},
		{"Dense before the pooling", map[string]string{"modules.json": listed(transformer, dense),
			"2_Dense/config.json": "{}"}, "after the pooling"},
		{"sparse", map[string]string{"modules.json": listed(transformer, pooling),
			"config_sentence_transformers.json": `{"model_type": "SparseEncoder"}`},
			"model_type SparseEncoder"},
		{"a score without a token", map[string]string{
			"modules.json":                      listed(transformer, logitScore),
			"1_LogitScore/config.json":          "{}",
			"config_sentence_transformers.json": crossEncoder}, "without true_token_id"},
		{"a number for a text", map[string]string{
			"1_Pooling/config.json": `{"pooling_mode_cls_token": 3}`}, "expected true or false"},
		{"a missing config", map[string]string{"modules.json": listed(transformer, pooling)},
			"1_Pooling/config.json is missing"},
		{"damaged", map[string]string{"1_Pooling/config.json": `{`}, "1_Pooling/config.json"},
	} {
		if _, err := ReadModules(reader(c.files)); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.says)
		}
	}
}

// FuzzReadModules reads any texts as the files of sentence-transformers.
func FuzzReadModules(f *testing.F) {
	f.Add("["+transformer+","+pooling+"]", `{"pooling_mode": "cls"}`, crossEncoder)
	f.Add("["+transformer+","+logitScore+"]", `{"true_token_id": 1}`, crossEncoder)
	f.Add(`[]`, `{"pooling_mode": [1, null]}`, `{"max_seq_length": -1}`)
	f.Fuzz(func(t *testing.T, modules, config, about string) {
		m, err := ReadModules(func(name string) ([]byte, error) {
			switch name {
			case "modules.json":
				return []byte(modules), nil
			case "config_sentence_transformers.json", "sentence_bert_config.json":
				return []byte(about), nil
			}
			if !fs.ValidPath(name) {
				t.Errorf("reads %q", name)
			}
			return []byte(config), nil
		})
		if err != nil && len(err.Error()) > 2000 || err == nil && m != nil && m.MaxTokens < 0 {
			t.Errorf("%+v, %v", m, err)
		}
	})
}
