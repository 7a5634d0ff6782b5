// Package modelstest finds the tiny model with which tests run each architecture.
//
// A type that engine/models registers has a model of its name in engine/models/testdata/tiny, with
// reference outputs; `make oracle ARGS="--golden my_type"` writes it. A type that computes the same
// as another needs no model, but a row in sharing. The shared tests then cover it:
//
//	engine/models  exactness, rings, starts, layouts, packings, formats of states
//	engine         restarts, prefix cache, batches, Metal, the plan, configs with faults
package modelstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Model is the tiny model of one model_type.
type Model struct {
	Type   string // model_type in config.json
	Folder string // of the model in testdata/tiny, which is called Type if it is its own
	// Inside is the model_type in text_config, if Type is the type of a multimodal model. It is
	// empty if the keys of the language model are not nested.
	Inside string
}

// sharing lists the types that have no model of their own in testdata/tiny. Tests change the
// model_type of another type's model, and expect the same logits.
var sharing = []Model{
	{Type: "gemma3", Folder: "gemma3_text", Inside: "gemma3_text"},
	{Type: "gemma4", Folder: "gemma4_text", Inside: "gemma4_text"},
	{Type: "gemma4_unified", Folder: "gemma4_text", Inside: "gemma4_unified_text"},
	{Type: "iquestcoder", Folder: "llama"},
	{Type: "kimi_k2", Folder: "deepseek_v3"},
	{Type: "mimo", Folder: "qwen2"},
	{Type: "mistral3", Folder: "ministral3", Inside: "ministral3"},
	{Type: "muse_glimmer", Folder: "muse_glimmer_text", Inside: "muse_glimmer_text"},
	{Type: "qwen3_5", Folder: "qwen3_5_text", Inside: "qwen3_5_text"},
	{Type: "qwen3_5_moe", Folder: "qwen3_5_moe_text", Inside: "qwen3_5_moe_text"},
	{Type: "qwen3_8", Folder: "qwen3_5_text", Inside: "qwen3_8_text"},
	{Type: "qwen3_8_moe", Folder: "qwen3_5_moe_text", Inside: "qwen3_8_moe_text"},
	{Type: "qwen3_8_text", Folder: "qwen3_5_text"},
	{Type: "qwen3_vl", Folder: "qwen3", Inside: "qwen3_vl_text"},
	{Type: "qwen3_vl_moe", Folder: "qwen3_moe", Inside: "qwen3_vl_moe_text"},
	{Type: "qwen3_vl_moe_text", Folder: "qwen3_moe"},
	{Type: "qwen3_vl_text", Folder: "qwen3"},
	{Type: "solar_open", Folder: "glm4_moe"},
	{Type: "telechat3", Folder: "llama"},
	{Type: "xverse", Folder: "llama"},
}

// Shares reports whether m uses the model of another type.
func (m Model) Shares() bool { return m.Folder != m.Type }

// Find returns the model of each of types, the registered values of model_type, in the same order.
// tree is testdata/tiny. A type without a model is left out, and the error says what to do.
func Find(tree fs.FS, types []string) (found []Model, err error) {
	return find(tree, types, sharing)
}

func find(tree fs.FS, types []string, sharing []Model) (found []Model, err error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}
	exists := func(folder string) bool {
		_, err := fs.Stat(tree, path.Join(folder, "config.json"))
		return err == nil
	}
	for _, name := range types {
		m := Model{Type: name, Folder: name}
		row := slices.IndexFunc(sharing, func(m Model) bool { return m.Type == name })
		switch own := exists(name); {
		case own && row >= 0:
			fault("%s has a model in testdata/tiny and a row in modelstest: delete one", name)
		case row >= 0:
			m = sharing[row]
		case !own:
			fault("tests have no model of type %s: run make oracle ARGS=\"--golden %s\", or add "+
				"a row to modelstest if it computes the same as another type", name, name)
			continue
		}
		if !exists(m.Folder) {
			fault("the row of %s in modelstest names %s, which testdata/tiny does not have", name,
				m.Folder)
			continue
		}
		found = append(found, m)
	}
	for _, m := range sharing {
		if !slices.Contains(types, m.Type) {
			fault("modelstest has a row for %s, which engine/models does not register", m.Type)
		}
	}
	return found, errors.Join(append(faults, strayFolders(tree, types)...)...)
}

// strayFolders returns an error for every folder that is not called TYPE or TYPE_VARIANT.
func strayFolders(tree fs.FS, types []string) (faults []error) {
	folders, err := fs.ReadDir(tree, ".")
	if err != nil {
		return []error{err}
	}
	for _, f := range folders {
		if !slices.ContainsFunc(types, func(name string) bool {
			return f.Name() == name || strings.HasPrefix(f.Name(), name+"_")
		}) {
			faults = append(faults, fmt.Errorf("testdata/tiny/%s has the name of no registered "+
				"type", f.Name()))
		}
	}
	return faults
}

// Config returns config.json of m. tree is testdata/tiny.
func (m Model) Config(tree fs.FS) ([]byte, error) {
	data, err := fs.ReadFile(tree, path.Join(m.Folder, "config.json"))
	if err != nil || !m.Shares() {
		return data, err
	}
	var keys map[string]any
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, err
	}
	keys["model_type"] = m.Type
	if m.Inside != "" {
		keys["model_type"] = m.Inside
		keys = map[string]any{"model_type": m.Type, "text_config": keys}
	}
	return json.Marshal(keys)
}
