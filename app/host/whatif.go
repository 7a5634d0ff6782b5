package host

// The memory that a model would need with other settings, for the what-if panel. It asks needOf, as
// the list of models does, so it opens with the figure of the list. The sizes come from a dry run
// that plans the model without allocating it.

import (
	"cmp"
	"maps"
	"slices"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// WhatIfQuery asks about one model. Zero fields mean the values it would be loaded with.
type WhatIfQuery struct {
	Model         string // an ID; "" means the model in front, or the bundled one
	ContextTokens int    // of each request
	Streams       int    // concurrent requests
}

// WhatIf is the document of /control/memory/what-if.
type WhatIf struct {
	Model string `json:"model"`
	// ContextTokens is the length asked for, capped at TrainedTokens.
	ContextTokens int `json:"contextTokens"`
	// TrainedTokens is the longest context that the model was trained for.
	TrainedTokens int `json:"trainedTokens"`
	Streams       int `json:"streams"`
	// RoomBytes is the memory available for a model once the loaded ones that are not pinned are
	// unloaded. Fits compares with it.
	RoomBytes int64 `json:"roomBytes"`
	// Formats compares KV cache formats, starting with the one the model would be loaded with.
	Formats []WhatIfFormat `json:"formats"`
}

// WhatIfFormat is a KV cache format with the memory that the model needs with it.
type WhatIfFormat struct {
	Name            string `json:"name"`
	KVFormat        string `json:"kvFormat"` // as in the settings
	KVBits          string `json:"kvBits"`
	KVBytesPerToken int64  `json:"kvBytesPerToken"`

	NeedBytes int64     `json:"needBytes"` // the sum of Need
	Need      NeedParts `json:"need"`
	// FullBytes is what the model would take if all streams had conversations of the whole context.
	// It is not needed: the streams share what there is.
	FullBytes int64 `json:"fullBytes"`

	Fits memory.Fit `json:"fits"`
	// LargestContextTokens is the longest context that fits; 0: none does.
	LargestContextTokens int `json:"largestContextTokens"`
	// Memory is the ledger with this model loaded in place of all others.
	Memory memory.Ledger `json:"memory"`
}

// kvChoices are the formats to compare, the default first.
var kvChoices = []WhatIfFormat{
	{Name: "8-bit keys, 4-bit values"},
	{Name: "8-bit", KVFormat: "affine", KVBits: "(8, 8)"},
	{Name: "4-bit", KVFormat: "affine", KVBits: "(4, 4)"},
	{Name: "q8_0", KVFormat: "q8_0"},
	{Name: "q4_0", KVFormat: "q4_0"},
	{Name: "16-bit, exact", KVFormat: "f16"},
}

// WhatIf computes the memory needs from the headers of the model's files. The error is a Problem.
func (h *Host) WhatIf(q WhatIfQuery) (WhatIf, error) {
	m, running, err := h.modelByID(q.Model)
	if err != nil {
		return WhatIf{}, err
	}
	o := h.adaptedOptions(m.ID)
	o.ContextTokens, o.MaxSequences = cmp.Or(q.ContextTokens, o.ContextTokens),
		cmp.Or(q.Streams, o.MaxSequences, defaultStreams)
	reading, used, room := h.readMemory()
	now := memory.Split(reading, used)
	w := WhatIf{Model: m.ID, Streams: o.MaxSequences, RoomBytes: room}
	contextTokens := q.ContextTokens
	for _, choice := range choicesFor(o) {
		with := o
		with.KVFormat, with.KVBits = choice.KVFormat, choice.KVBits
		if choice.KVFormat != o.KVFormat || choice.KVBits != o.KVBits {
			with.KVGroupSize = "" // it belongs to the format that is set
		}
		d, err := h.options.Library.DescribeWith(m, with)
		if err != nil {
			return WhatIf{}, err
		}
		choice.setSizes(d, running, contextTokens, w.Streams, room)
		choice.Memory = memory.Planned(now, choice.engineBytes())
		if w.Formats == nil { // all formats are compared at the same length
			w.TrainedTokens, w.ContextTokens = d.ContextTokens, choice.Need.ContextTokens
			contextTokens = w.ContextTokens
		}
		w.Formats = append(w.Formats, choice)
	}
	return w, nil
}

// defaultStreams is the engine's default for concurrent requests.
const defaultStreams = 8

// setSizes sets the sizes, Fits and LargestContextTokens.
func (f *WhatIfFormat) setSizes(d engine.Description, running *target, contextTokens, streams int,
	roomBytes int64) {
	f.KVBytesPerToken = d.KVBytesPerToken
	f.Need = needOf(d, running, roomBytes, contextTokens)
	f.NeedBytes = f.Need.TotalBytes()
	f.FullBytes = f.NeedBytes + int64(streams-1)*f.Need.KVBytes
	f.Fits = memory.Fits(f.NeedBytes, roomBytes)
	f.LargestContextTokens = d.LargestContext(roomBytes)
	if d.Plain != nil {
		f.LargestContextTokens = max(f.LargestContextTokens, d.Plain.LargestContext(roomBytes))
	}
}

// engineBytes returns the sizes as a running engine would report them, with one conversation of the
// whole context.
func (f *WhatIfFormat) engineBytes() memory.EngineBytes {
	return memory.EngineBytes{Weights: f.Need.WeightsBytes, KVUsed: f.Need.KVBytes,
		State: f.Need.StateBytes, Scratch: f.Need.ScratchBytes}
}

// choicesFor returns the formats to compare, starting with the format of o.
func choicesFor(o engine.Options) []WhatIfFormat {
	choices := slices.Clone(kvChoices)
	for i, c := range choices {
		if c.KVFormat == o.KVFormat && c.KVBits == o.KVBits {
			return slices.Insert(slices.Delete(choices, i, i+1), 0, c)
		}
	}
	return slices.Insert(choices, 0,
		WhatIfFormat{Name: "as set for this model", KVFormat: o.KVFormat, KVBits: o.KVBits})
}

// modelByID returns the model with that ID, and its target if it is running. "" means the model in
// front, or the bundled one. The error is a Problem.
func (h *Host) modelByID(id string) (library.Model, *target, error) {
	for n, t := range h.runningTargets() {
		if id == "" && n == 0 || id == t.model.ID {
			return t.model, t, nil
		}
	}
	models := h.models.list()
	for _, m := range models {
		if m.ID == id || id == "" && m.Bundled {
			return m, nil, m.Err
		}
	}
	return library.Model{}, nil, library.NotFound(id, models, nil)
}

func (h *Host) engineOptions(id string) engine.Options {
	if h.options.Engine == nil {
		return engine.Options{}
	}
	return h.options.Engine(id)
}

// adaptedOptions is engineOptions with the adapter with which a person has started the model.
func (h *Host) adaptedOptions(id string) engine.Options {
	o := h.engineOptions(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, ok := h.adapters[id]; ok {
		o.Adapter = &a
	}
	return o
}

// withAdapters returns models whose needs include the adapters with which persons have started
// them.
func (h *Host) withAdapters(models []library.Model) []library.Model {
	h.mu.Lock()
	adapters := maps.Clone(h.adapters)
	h.mu.Unlock()
	if len(adapters) == 0 {
		return models
	}
	models = slices.Clone(models)
	for i := range models {
		m := &models[i]
		if a, ok := adapters[m.ID]; ok && m.Err == nil {
			m.Description = m.Description.WithAdapter(engine.AdapterBytes(a.Dir))
		}
	}
	return models
}

// CheckModel checks that the model can be loaded with these options, regardless of memory, and that
// its own settings name no draft model where there is nothing to draft. The error is a Problem.
func (h *Host) CheckModel(id string, own settings.Model, o engine.Options) error {
	m, _, err := h.modelByID(id)
	if err != nil {
		return err
	}
	description, err := h.options.Library.DescribeWith(m, o)
	if err == nil && own.DraftModel != "" && description.Task != modelfile.Generate {
		return problem.New(problem.BadRequest, "These settings are not valid",
			"the model generates no text, so no draft model can draft for it",
			"Leave out draftModel.")
	}
	if err != nil || own.DraftModel == "" || o.DraftModel == nil ||
		!engine.UsesDraftModel(o.Speculate) {
		return err
	}
	target, err := engine.NewDraftTarget(m.Source) // describing a model reads no vocabulary
	if err != nil {
		return err
	}
	return target.Fits(o.DraftModel.Source)
}

// DraftModels returns the IDs of the models in the library that can draft for a model: blocks that
// are made for it, and smaller models with its vocabulary. The error is a Problem.
func (h *Host) DraftModels(id string) ([]string, error) {
	m, _, err := h.modelByID(id)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	if m.Err != nil || m.Description.Task != modelfile.Generate {
		return ids, nil
	}
	target, err := engine.NewDraftTarget(m.Source)
	if err != nil {
		return nil, err
	}
	for _, other := range h.models.list() {
		smaller := other.State == library.Ready && other.SizeBytes < m.SizeBytes &&
			other.Description.Task == modelfile.Generate
		if (smaller || other.State == library.Drafter) && target.Fits(other.Source) == nil {
			ids = append(ids, other.ID)
		}
	}
	return ids, nil
}

// RenewModel updates the list of models after the settings of one have changed.
func (h *Host) RenewModel(id string) {
	if m, _, err := h.modelByID(id); err == nil {
		h.options.Library.Renew(m)
		h.models.rescan()
		h.models.note([]library.Change{{Kind: library.Changed, Model: m}})
		h.mu.Lock()
		defer h.mu.Unlock()
		h.subscribers.notify()
	}
}

// RevealModel shows the model's folder at path in the Finder or file manager; "" means the first.
func (h *Host) RevealModel(id, path string) error {
	models := h.models.list()
	i := slices.IndexFunc(models, func(m library.Model) bool { return m.ID == id })
	if i < 0 {
		return problem.New(problem.ModelNotFound, "There is no model "+id+" here", "",
			"Scan for models again.")
	}
	return h.options.Library.Reveal(models[i], path)
}
