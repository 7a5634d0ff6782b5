package settings

// What the command line can say about caches and single models, as settings. A zero value, or a key
// that is missing, means the default; flags beat settings.

import (
	"encoding/json"
	"maps"
	"strings"
)

// Cache is what is kept of conversations, on disk and in memory, and how reading prompts and
// writing answers share the engine.
type Cache struct {
	Off bool `json:"off,omitempty"` // nothing on disk
	// absolute; "": "headroom/blocks" in the user's cache folder
	Dir     string `json:"dir,omitempty"`
	MaxSize Size   `json:"maxSize,omitempty"` // of all files together
	// of the disk, which the cache leaves alone
	MinFree     Size `json:"minFree,omitempty"`
	DailyWrites Size `json:"dailyWrites,omitempty"` // at most, in a day
	// in memory, of keys and values that no running request uses
	HotSize         Size `json:"hotSize,omitempty"`
	PromptCacheSize int  `json:"promptCacheSize,omitempty"` // conversations in memory
	// waiting prompts are read before running answers go on
	PreferPrefill bool `json:"preferPrefill,omitempty"`
	// for which reading a prompt may hold up running answers
	MaxStallMs int `json:"maxStallMs,omitempty"`
}

// repair gives numbers that cannot be their default.
func (c *Cache) repair() {
	c.PromptCacheSize = max(c.PromptCacheSize, 0)
	c.MaxStallMs = max(c.MaxStallMs, 0)
}

// Model is how one model is run; see engine.Options. Whether the values make sense is found when
// the model is opened.
type Model struct {
	ContextTokens    int    `json:"contextTokens,omitempty"`
	MaxSequences     int    `json:"maxSequences,omitempty"`
	KVFormat         string `json:"kvFormat,omitempty"`
	KVBits           string `json:"kvBits,omitempty"`
	KVGroupSize      string `json:"kvGroupSize,omitempty"`
	KVBoundaryLayers *int   `json:"kvBoundaryLayers,omitempty"` // 0: none
	KVBoundaryBits   int    `json:"kvBoundaryBits,omitempty"`
	KVStartTokens    int    `json:"kvStartTokens,omitempty"`
	StateFormat      string `json:"stateFormat,omitempty"`
	MaxKVTokens      int    `json:"maxKVTokens,omitempty"`

	// What requests get that do not say; see openai.Defaults. They hold from the next request on.
	MaxTokens         int             `json:"maxTokens,omitempty"`
	Temperature       *float64        `json:"temperature,omitempty"`
	TopP              *float64        `json:"topP,omitempty"`
	TopK              *int            `json:"topK,omitempty"`
	MinP              *float64        `json:"minP,omitempty"`
	RepetitionPenalty *float64        `json:"repetitionPenalty,omitempty"`
	PresencePenalty   *float64        `json:"presencePenalty,omitempty"`
	FrequencyPenalty  *float64        `json:"frequencyPenalty,omitempty"`
	Seed              *int64          `json:"seed,omitempty"`
	TemplateArguments json.RawMessage `json:"templateArguments,omitempty"` // a JSON object
}

// ForModel returns the model's own settings; the zero value if it has none. The case of IDs does
// not matter.
func (s Settings) ForModel(id string) Model {
	if m, ok := s.Models[id]; ok {
		return m
	}
	for other, m := range s.Models {
		if strings.EqualFold(other, id) {
			return m
		}
	}
	return Model{}
}

// ForgetModel takes the model's own settings away. The case of IDs does not matter.
func (s *Settings) ForgetModel(id string) {
	maps.DeleteFunc(s.Models,
		func(other string, _ Model) bool { return strings.EqualFold(other, id) })
}

// cloneModels copies what can be written to; what else a Model points at is only ever replaced.
func cloneModels(models map[string]Model) map[string]Model {
	models = maps.Clone(models)
	for id, m := range models {
		if m.KVBoundaryLayers != nil {
			n := *m.KVBoundaryLayers
			m.KVBoundaryLayers = &n
			models[id] = m
		}
	}
	return models
}
