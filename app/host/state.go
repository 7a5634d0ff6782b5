package host

// The document that every view draws from, and its JSON. The web UI reads these names: they are an
// interface, so fields may be added but not renamed. Lists are never null.

import (
	"headroom/app/cache"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine/problem"
)

// State is all that tray, window and browser show, as one plain document: the JSON of /api/state.
type State struct {
	Version  string        `json:"version"`
	Engine   EngineState   `json:"engine"`
	Endpoint Endpoint      `json:"endpoint"`
	Memory   memory.Ledger `json:"memory"`
	Cache    cache.Stats   `json:"cache"`
	Speed    Speed         `json:"speed"`
	Power    PowerState    `json:"power"`
	Requests []Request     `json:"requests"`
	// LastFinished is the ID of the request that ended last, "" if none has: where it changes,
	// Finished has something new.
	LastFinished string `json:"lastFinished"`
	// ModelsVersion counts the changes of the list of models: where it changes, Models has
	// something new.
	ModelsVersion int `json:"modelsVersion"`
	// RoomBytes is what models are judged by: the headroom, and what the running model would give
	// back.
	RoomBytes int64 `json:"roomBytes"`
}

// Status is what the engine is doing.
type Status string

// The statuses.
const (
	Stopped Status = "stopped"
	Loading Status = "loading"
	Ready   Status = "ready"
	Busy    Status = "busy" // ready, and answering
	Failed  Status = "failed"
	Resting Status = "resting" // unloaded because nobody used it; the next request loads it
)

// EngineState is the engine and its model.
type EngineState struct {
	Status        Status  `json:"status"`
	Model         string  `json:"model"`    // "" when there is none
	Progress      float64 `json:"progress"` // [0, 1], while loading
	Device        string  `json:"device"`
	ContextTokens int     `json:"contextTokens"`
	CacheFormat   string  `json:"cacheFormat"` // of keys and values
	StateFormat   string  `json:"stateFormat"` // of recurrent states; "" for a model without
	Error         *Error  `json:"error"`       // why it failed
	// what to know besides, in any status: that the GPU is not used; null for nothing
	Notice *Error `json:"notice"`
}

// Error is a Problem as JSON.
type Error struct {
	Code    problem.Code `json:"code"`
	Message string       `json:"message"`
	Why     string       `json:"why"`
	Fix     string       `json:"fix"`
}

// NewError makes the JSON of an error; nil of nil.
func NewError(err error) *Error {
	if err == nil {
		return nil
	}
	p := problem.From(err)
	return &Error{Code: p.Code, Message: p.Message, Why: p.Why, Fix: p.Fix}
}

// Endpoint is where the server listens. Both are "" before it does.
type Endpoint struct {
	// what an OpenAI client wants as its base URL: "http://127.0.0.1:11811/v1"
	URL   string `json:"url"`
	UIURL string `json:"uiUrl"` // "http://127.0.0.1:11811/"
}

// Speed is how fast the engine works now, and has worked.
type Speed struct {
	DecodeTokensPerSecond  float64  `json:"decodeTokensPerSecond"`
	PrefillTokensPerSecond float64  `json:"prefillTokensPerSecond"`
	History                []Sample `json:"history"` // oldest first
}

// Sample is one point of the history.
type Sample struct {
	AtUnixMs    int64   `json:"at"`
	Decode      float64 `json:"decode"`
	Prefill     float64 `json:"prefill"`
	MemoryBytes int64   `json:"memoryBytes"` // resident in Headroom's processes
}

// Request is one in flight.
type Request struct {
	ID               string  `json:"id"`
	Model            string  `json:"model"`
	Phase            string  `json:"phase"` // "waiting", "prefill" or "decode"
	PromptTokens     int     `json:"promptTokens"`
	PromptDoneTokens int     `json:"promptDoneTokens"`
	CachedTokens     int     `json:"cachedTokens"`
	GeneratedTokens  int     `json:"generatedTokens"`
	TokensPerSecond  float64 `json:"tokensPerSecond"`
	StartedAtUnixMs  int64   `json:"startedAt"`
}

// Model is one that is on this machine.
type Model struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Path         string `json:"path"` // "" for the bundled one
	Architecture string `json:"architecture"`
	Parameters   int64  `json:"parameters"` // 0: not known
	Quantization string `json:"quantization"`
	SizeBytes    int64  `json:"sizeBytes"`
	NeedBytes    int64  `json:"needBytes"`
	// into the headroom, and what the running model would give back
	Fits    memory.Fit `json:"fits"`
	Loaded  bool       `json:"loaded"`
	Bundled bool       `json:"bundled"`
	Error   string     `json:"error"` // why it cannot be used; "" when it can

	State         library.State `json:"state"`         // only a ready one can be started
	ContextTokens int           `json:"contextTokens"` // the longest it was trained for
	// when its files last changed; 0: not known
	UpdatedAtUnixMs int64     `json:"updatedAt"`
	Download        *Download `json:"download"` // null unless it is downloading
	// where it lies, path first; empty for the bundled one
	Places []Place `json:"places"`
}
