package host

// The documents that menu, window and browser show. The JSON names are an interface: from the first
// release on, fields may be added but not renamed. Lists are never null.

import (
	"headroom/app/cache"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// State is the document of /control/state: everything that menu, window and browser show at
// a glance.
type State struct {
	Version string `json:"version"`
	// Engine is the model in front: the one that a person started last. If that was unloaded by
	// itself, or there is none, it is the one that was used last.
	Engine EngineState `json:"engine"`
	// Engines lists all models that are loaded, loading, failed or were unloaded by themselves, the
	// one in front first, then by last use.
	Engines  []EngineState `json:"engines"`
	Endpoint Endpoint      `json:"endpoint"`
	Memory   memory.Ledger `json:"memory"`
	Cache    cache.Stats   `json:"cache"`
	Reuse    Reuse         `json:"reuse"`
	Speed    Speed         `json:"speed"`
	Power    PowerState    `json:"power"`
	Pressure PressureState `json:"pressure"`
	Requests []Request     `json:"requests"`
	// LastFinished is the ID of the request that finished last, "" if none has; private ones do not
	// count. When it changes,
	// Finished has a new entry.
	LastFinished string `json:"lastFinished"`
	// ModelsVersion counts the changes of the list of models. When it changes, Models returns
	// another list.
	ModelsVersion int `json:"modelsVersion"`
	// Checking is the ID of the model that is being checked; "": none.
	Checking string `json:"checking"`
	// ChecksVersion counts the changes of checks. When it changes, Check returns another document
	// for one of the models.
	ChecksVersion int `json:"checksVersion"`
	// RoomBytes is the memory available for a model once the loaded ones that are not pinned are
	// unloaded. It is Memory.HeadroomBytes while none is loaded.
	RoomBytes int64 `json:"roomBytes"`
}

// Status is the status of a model's engine.
type Status string

// The statuses of an engine.
const (
	Stopped Status = "stopped"
	Loading Status = "loading"
	Ready   Status = "ready"
	Busy    Status = "busy" // ready, with requests running or waiting
	Failed  Status = "failed"
	// IdleUnloaded: it was idle, or another model needed its memory; the next request loads it.
	IdleUnloaded Status = "unloaded"
)

// EngineState is a model and its engine.
type EngineState struct {
	Status        Status  `json:"status"`
	Model         string  `json:"model"`    // "" for none
	Progress      float64 `json:"progress"` // [0, 1], while loading
	Device        string  `json:"device"`
	ContextTokens int     `json:"contextTokens"`
	CacheFormat   string  `json:"cacheFormat"` // format of keys and values
	// format of recurrent states; "" if the model has none
	StateFormat string `json:"stateFormat"`
	// Drafter is what drafts for the model: "mtp", "draft", "dflash", or "" if nothing does.
	Drafter string `json:"drafter"`
	// Lookups says that tokens are looked up to decode ahead, whatever drafts besides.
	Lookups bool `json:"lookups"`
	// DraftModel is the name of the draft model or of the folder of the drafter, if one drafts.
	DraftModel string `json:"draftModel"`
	// DraftModelUnused is why the draft model of the settings does not draft; "" if it does.
	DraftModelUnused string `json:"draftModelUnused"`
	Error            *Error `json:"error"` // why loading failed
	// RetryAtUnixMs is when loading is tried again after a failure; 0: it is not.
	RetryAtUnixMs int64 `json:"retryAt"`
	// Notice is a warning beside the status, such as that the GPU is not used; null for none.
	Notice *Error `json:"notice"`
	// Requested says that the model was loaded for a request, and not by a person.
	Requested bool `json:"requested"`
	// Pinned says that the model stays loaded until it is stopped.
	Pinned bool `json:"pinned"`
	// Requests counts the requests that use the model or wait for it.
	Requests    int   `json:"requests"`
	MemoryBytes int64 `json:"memoryBytes"` // that its engine uses; 0 while it is not loaded
	// ReservedBytes is what the engine is promised beyond that, and has not used yet.
	ReservedBytes int64 `json:"reservedBytes"`
	// GeneratedTokens are those of all answers since the model was loaded. Of DraftTokens, which
	// were drafted to be decoded ahead, the model chose AcceptedTokens, too.
	GeneratedTokens int64 `json:"generatedTokens"`
	DraftTokens     int64 `json:"draftTokens"`
	AcceptedTokens  int64 `json:"acceptedTokens"`
	// Speedup is how many times as fast as without drafts these answers were decoded, by estimate,
	// and SavedSeconds the time that drafts saved; negative: they cost time.
	Speedup      float64 `json:"gained"`
	SavedSeconds float64 `json:"savedSeconds"`
	// NoDrafts is why no request of the last ten minutes had drafts, as a sentence; "": one had.
	NoDrafts string `json:"noDrafts"`
	// LastUsedAtUnixMs is when its last request began or ended; without requests, when it was
	// loaded.
	LastUsedAtUnixMs int64 `json:"lastUsedAt"`
	// DecodeTokensPerSecond is the current speed of all its answers together.
	DecodeTokensPerSecond float64 `json:"decodeTokensPerSecond"`
}

// Error is a Problem as JSON.
type Error struct {
	Code    problem.Code `json:"code"`
	Message string       `json:"message"`
	Why     string       `json:"why"`
	Fix     string       `json:"fix"`
	// Detail is what the system said, if that is not in Why: for a person who reports a fault.
	Detail string `json:"detail,omitempty"`
}

// NewError returns the JSON form of err, nil for nil.
func NewError(err error) *Error {
	if err == nil {
		return nil
	}
	p := problem.From(err)
	e := &Error{Code: p.Code, Message: p.Message, Why: p.Why, Fix: p.Fix}
	if p.Code == problem.Upstream && p.Err != nil && p.Err.Error() != p.Why {
		e.Detail = p.Err.Error()
	}
	return e
}

// Endpoint has the addresses of the server. Both are "" until it listens.
type Endpoint struct {
	// URL is the base URL for OpenAI clients: "http://127.0.0.1:11811/v1".
	URL   string `json:"url"`
	UIURL string `json:"uiUrl"` // "http://127.0.0.1:11811/"
}

// Reuse counts the prompt tokens of all requests since Headroom started.
type Reuse struct {
	MemoryTokens   int64 `json:"memoryTokens"`   // from the cache in memory
	DiskTokens     int64 `json:"diskTokens"`     // from the cache on disk
	ComputedTokens int64 `json:"computedTokens"` // not cached
	// RecomputedTokens of the computed ones had been computed before: the cache was missed. A
	// request counts once it has ended.
	RecomputedTokens int64 `json:"recomputedTokens"`
}

// add adds the totals of an engine.
func (r *Reuse) add(s engine.Stats) {
	r.MemoryTokens += s.CachedTokens - s.StoredTokens
	r.DiskTokens += s.StoredTokens
	r.ComputedTokens += s.PromptTokens
	r.RecomputedTokens += s.RecomputedTokens
}

// Speed has the current speed of the engine and its history.
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
	MemoryBytes int64   `json:"memoryBytes"` // resident memory of Headroom's processes
}

// Request is a waiting or running request.
type Request struct {
	ID     string `json:"id"`
	Title  string `json:"title"`  // first words; "" for a private request
	Client string `json:"client"` // program that sent it; "": unknown
	Key    string `json:"key"`    // name of its API key; "": none
	Model  string `json:"model"`
	// Machine is the other machine that answers; "": this one does. Of its requests, the tokens are
	// not known.
	Machine string `json:"machine,omitempty"`
	Phase   string `json:"phase"` // "waiting", "prefill" or "decode"
	// LacksBytes is the memory that a waiting request waits for; 0: it waits for none.
	LacksBytes       int64   `json:"lacksBytes"`
	PromptTokens     int     `json:"promptTokens"`
	PromptDoneTokens int     `json:"promptDoneTokens"`
	CachedTokens     int     `json:"cachedTokens"`
	GeneratedTokens  int     `json:"generatedTokens"`
	TokensPerSecond  float64 `json:"tokensPerSecond"`
	StartedAtUnixMs  int64   `json:"startedAt"`
}

// Model is a model on this machine.
type Model struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Path         string `json:"path"` // "" for the bundled one
	Architecture string `json:"architecture"`
	// Task is what the model computes: "" for text, "embed" for vectors, "rerank" for scores.
	Task         modelfile.Task `json:"task"`
	Parameters   int64          `json:"parameters"` // 0: unknown
	Quantization string         `json:"quantization"`
	Drafts       bool           `json:"drafts"`      // a block that drafts is loaded with it (MTP)
	Convertible  bool           `json:"convertible"` // a GGUF file, which an import converts
	BlockUnused  string         `json:"blockUnused"` // why its block is not; "": it is, or has none
	SizeBytes    int64          `json:"sizeBytes"`
	NeedBytes    int64          `json:"needBytes"` // the sum of Need
	Need         NeedParts      `json:"need"`
	// Fits says whether the model fits into RoomBytes.
	Fits    memory.Fit `json:"fits"`
	Loaded  bool       `json:"loaded"`
	Bundled bool       `json:"bundled"`
	Error   string     `json:"error"` // why the model cannot be used; "" if it can

	State         library.State `json:"state"`         // only a ready model can be started
	ContextTokens int           `json:"contextTokens"` // the longest context it was trained for
	// when its files last changed; 0: not known
	UpdatedAtUnixMs int64     `json:"updatedAt"`
	Download        *Download `json:"download"` // null unless it is downloading
	// Places lists the folders with a copy, Path first; empty for the bundled model.
	Places []Place `json:"places"`
	// Adapters are the LoRA and DoRA adapters for the model.
	Adapters []Adapter `json:"adapters"`
}

// Adapter is an adapter of a model.
type Adapter struct {
	ID        string `json:"id"` // requests name it so: the model's ID, a plus sign and its name
	Name      string `json:"name"`
	Path      string `json:"path"`
	DoRA      bool   `json:"dora"` // false: LoRA
	Rank      int    `json:"rank"` // 0: not known
	SizeBytes int64  `json:"sizeBytes"`
}
