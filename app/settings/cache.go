package settings

// Settings of the caches and of single models. The command line has the same flags, which override
// them. A zero value or a missing key means the default.

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// Cache configures the prefix cache on disk and in memory, and the balance of prefill and decode.
type Cache struct {
	Off bool `json:"off,omitempty"` // store nothing on disk
	// Unencrypted stores the cache in plain text; see blockstore.Options.Key.
	Unencrypted bool `json:"unencrypted,omitempty"`
	// Dir is an absolute path; "": "headroom/blocks" in the user's cache folder.
	Dir         string `json:"dir,omitempty"`
	MaxSize     Size   `json:"maxSize,omitempty"`     // limit for all files together
	MinFree     Size   `json:"minFree,omitempty"`     // disk space that stays free
	DailyWrites Size   `json:"dailyWrites,omitempty"` // limit for the writes of a day
	// MemoryCacheSize bounds the cached keys and values in memory that no running request uses.
	MemoryCacheSize Size `json:"memoryCacheSize,omitempty"`
	PromptCacheSize int  `json:"promptCacheSize,omitempty"` // number of prefixes in memory
	PreferPrefill   bool `json:"preferPrefill,omitempty"`   // prefill new prompts before decoding
	NoPreload       bool `json:"noPreload,omitempty"`       // read nothing from disk in advance
	// MaxPrefillStallMs is how long prefill may delay running answers, in milliseconds.
	MaxPrefillStallMs int `json:"maxPrefillStallMs,omitempty"`
}

// Model configures one model; see engine.Options. Open gets a function that checks the values.
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
	SnapKV           *bool  `json:"snapKV,omitempty"`
	SnapKVTokens     int    `json:"snapKVTokens,omitempty"`
	// Speculate is auto, off, lookup, mtp, draft or dflash; "": auto.
	Speculate string `json:"speculate,omitempty"`
	// DraftModel names the model's draft model, or another drafter for it: an ID, a name, an alias
	// or a folder; "": none.
	DraftModel     string `json:"draftModel,omitempty"`
	NumDraftTokens int    `json:"numDraftTokens,omitempty"` // at most; 0: what is worth its time
	// Aliases are further names by which requests may ask for the model. Case does not count.
	Aliases []string `json:"aliases,omitempty"`

	// Pinned keeps the model loaded: neither idle time nor other models unload it.
	Pinned bool `json:"pinned,omitempty"`
	// IdleUnloadMinutes overrides Settings.IdleUnloadMinutes; nil: it does not, 0: never.
	IdleUnloadMinutes *int `json:"idleUnloadMinutes,omitempty"`

	// Defaults for requests; see generate.Defaults. A change applies from the next request on.
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

// OfLoading returns the names of the settings that a model is loaded with, as far as m has them.
func (m Model) OfLoading() (names []string) {
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "aliases" { // what follows concerns requests
			break
		}
		if !v.Field(i).IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// ForModel returns the settings of a model, or the zero value if it has none. IDs ignore case.
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

// Configured reports whether the settings have more than aliases for a model. IDs ignore case.
func (s Settings) Configured(id string) bool {
	m := s.ForModel(id)
	m.Aliases = nil
	return !reflect.ValueOf(m).IsZero()
}

// ForgetModel removes the settings of a model. IDs ignore case.
func (s *Settings) ForgetModel(id string) {
	maps.DeleteFunc(s.Models,
		func(other string, _ Model) bool { return strings.EqualFold(other, id) })
}

// cloneModels copies the map, and what KVBoundaryLayers points to. The values behind the other
// pointers and slices of a Model are never changed.
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
