package host

// What a model would need, were it opened otherwise: the arithmetic behind the what-if panel.
// Weights, states and scratch are what the engine measures on a device that allocates nothing; keys
// and values are pages for every stream at its full length, which is more than the engine takes at
// first, and what it takes in the end.

import (
	"cmp"
	"slices"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
	"headroom/engine/problem"
)

// WhatIfQuery asks about one model. Zeros mean what it would be opened with.
type WhatIfQuery struct {
	Model         string // an ID; "": the one that runs, or else the bundled one
	ContextTokens int    // of each stream
	Streams       int    // that run at once
}

// WhatIf is the document of /api/memory/what-if.
type WhatIf struct {
	Model string `json:"model"`
	// that was asked for, or would be opened, and at most trainedTokens
	ContextTokens int `json:"contextTokens"`
	// the longest context that the model was trained for
	TrainedTokens int   `json:"trainedTokens"`
	Streams       int   `json:"streams"`
	RoomBytes     int64 `json:"roomBytes"` // what fits is judged by
	// Formats are ways to keep keys and values, the one that the model would be opened with first.
	Formats []WhatIfFormat `json:"formats"`
}

// WhatIfFormat is one way to keep keys and values, and what everything takes with it.
type WhatIfFormat struct {
	Name            string `json:"name"`
	KVFormat        string `json:"kvFormat"` // as settings have it
	KVBits          string `json:"kvBits"`
	KVBytesPerToken int64  `json:"kvBytesPerToken"`

	WeightsBytes int64 `json:"weightsBytes"`
	KVBytes      int64 `json:"kvBytes"`
	StateBytes   int64 `json:"stateBytes"`
	ScratchBytes int64 `json:"scratchBytes"`
	NeedBytes    int64 `json:"needBytes"` // the sum

	Fits memory.Fit `json:"fits"`
	// LargestContextTokens is the longest context of that many streams that fits; 0: none does.
	LargestContextTokens int `json:"largestContextTokens"`
}

// kvChoices are the formats that are compared. The default comes first.
var kvChoices = []WhatIfFormat{
	{Name: "8-bit keys, 4-bit values"},
	{Name: "8-bit", KVFormat: "affine", KVBits: "(8, 8)"},
	{Name: "4-bit", KVFormat: "affine", KVBits: "(4, 4)"},
	{Name: "q8_0", KVFormat: "q8_0"},
	{Name: "q4_0", KVFormat: "q4_0"},
	{Name: "16-bit, exact", KVFormat: "f16"},
}

// pageTokens is the engine's page: contexts are whole pages.
const pageTokens = 32

// WhatIf works it out, from the model's headers. The error is a Problem.
func (h *Host) WhatIf(q WhatIfQuery) (WhatIf, error) {
	m, running, err := h.named(q.Model)
	if err != nil {
		return WhatIf{}, err
	}
	o := h.engineOptions(m.ID)
	o.ContextTokens, o.MaxSequences = cmp.Or(q.ContextTokens, o.ContextTokens),
		cmp.Or(q.Streams, o.MaxSequences, defaultStreams)
	w := WhatIf{Model: m.ID, Streams: o.MaxSequences, RoomBytes: h.roomBytes()}
	o.AvailableBytes = max(w.RoomBytes, 1)
	if o.ContextTokens == 0 && running != nil {
		o.ContextTokens = running.engine.Info().ContextTokens
	} else if o.ContextTokens == 0 {
		// all formats are compared at the length that it would be opened with
		d, err := h.options.Library.DescribeWith(m, o)
		if err != nil {
			return WhatIf{}, err
		}
		o.ContextTokens = d.PlannedTokens
	}
	for _, choice := range choicesFor(o) {
		with := o
		with.KVFormat, with.KVBits = choice.KVFormat, choice.KVBits
		if choice.KVFormat != o.KVFormat || choice.KVBits != o.KVBits {
			with.KVGroupSize = "" // it belongs to the bits
		}
		d, err := h.options.Library.DescribeWith(m, with)
		if err != nil {
			return WhatIf{}, err
		}
		w.TrainedTokens, w.ContextTokens = d.ContextTokens, min(o.ContextTokens, d.ContextTokens)
		choice.count(d, w.ContextTokens, w.Streams, w.RoomBytes)
		w.Formats = append(w.Formats, choice)
	}
	return w, nil
}

// defaultStreams is what the engine runs at once unless told otherwise.
const defaultStreams = 8

// count fills in the figures.
func (f *WhatIfFormat) count(d engine.Description, contextTokens, streams int, roomBytes int64) {
	n := d.Need
	f.KVBytesPerToken, f.WeightsBytes, f.StateBytes, f.ScratchBytes = d.KVBytesPerToken,
		n.WeightsBytes, n.StateBytes, n.ScratchBytes
	f.KVBytes = int64(streams) * d.KVBytes((contextTokens+pageTokens-1)/pageTokens*pageTokens)
	fixed := f.WeightsBytes + f.StateBytes + f.ScratchBytes
	f.NeedBytes = fixed + f.KVBytes
	f.Fits = memory.Fits(f.NeedBytes, roomBytes)
	// the first tokens of all streams take more
	start, left := int64(streams)*d.KVBytes(d.KVStartTokens), roomBytes-fixed
	if left < start {
		f.LargestContextTokens = largestContext(left, d.KVStartBytesPerToken*int64(streams),
			d.ContextTokens)
		return
	}
	f.LargestContextTokens = min(d.ContextTokens,
		d.KVStartTokens+largestContext(left-start, d.KVBytesPerToken*int64(streams),
			d.ContextTokens))
}

// largestContext is how many tokens of bytesPerToken fit into what is left, in whole pages, and at
// most as many as the model was trained for.
func largestContext(leftBytes, bytesPerToken int64, trainedTokens int) int {
	switch {
	case leftBytes < 0:
		return 0
	case bytesPerToken <= 0:
		return trainedTokens
	}
	tokens := leftBytes / (bytesPerToken * pageTokens) * pageTokens
	return int(min(tokens, int64(trainedTokens)))
}

// choicesFor are the formats, what the model is set to first.
func choicesFor(o engine.Options) []WhatIfFormat {
	choices := slices.Clone(kvChoices)
	for i, c := range choices {
		if c.KVFormat == o.KVFormat && c.KVBits == o.KVBits {
			return append(choices[i:i+1:i+1], slices.Delete(slices.Clone(choices), i, i+1)...)
		}
	}
	return slices.Insert(choices, 0,
		WhatIfFormat{Name: "as set for this model", KVFormat: o.KVFormat, KVBits: o.KVBits})
}

// named finds a listed model, and the target if it is the one that runs.
func (h *Host) named(id string) (library.Model, *target, error) {
	h.mu.Lock()
	running := h.running()
	h.mu.Unlock()
	if running != nil && (id == "" || id == running.model.ID) {
		return running.model, running, nil
	}
	models := h.models.list()
	for _, m := range models {
		if m.ID == id || id == "" && m.Bundled {
			return m, nil, m.Err
		}
	}
	return library.Model{}, nil, library.NotFound(id, models)
}

func (h *Host) engineOptions(id string) engine.Options {
	if h.options.Engine == nil {
		return engine.Options{}
	}
	return h.options.Engine(id)
}

// roomBytes is what models are judged by: the headroom, and what the running model would give back.
func (h *Host) roomBytes() int64 {
	reading, err := h.options.Meter.Read()
	if err != nil {
		h.log.Debug("reading the memory", "err", err)
	}
	h.mu.Lock()
	have := h.have
	h.mu.Unlock()
	var used memory.EngineBytes
	if have != nil {
		used = engineBytes(have.engine.Stats())
	}
	return reading.HeadroomBytes(used) + used.Total()
}

// CheckModel tells whether the model could be opened with such options, apart from how much memory
// there is. The error is a Problem.
func (h *Host) CheckModel(id string, o engine.Options) error {
	m, _, err := h.named(id)
	if err == nil {
		_, err = h.options.Library.DescribeWith(m, o)
	}
	return err
}

// RenewModel has the list follow settings of the model that have changed.
func (h *Host) RenewModel(id string) {
	if m, _, err := h.named(id); err == nil {
		h.options.Library.Renew(m)
		h.models.rescan()
		h.models.note([]library.Change{{Kind: library.Changed, Model: m}})
		h.mu.Lock()
		defer h.mu.Unlock()
		h.announce()
	}
}

// RevealModel shows the model's folder at path in the system's file manager; "" for the first one.
func (h *Host) RevealModel(id, path string) error {
	models := h.models.list()
	i := slices.IndexFunc(models, func(m library.Model) bool { return m.ID == id })
	if i < 0 {
		return problem.New(problem.ModelNotFound, "There is no model "+id+" here", "",
			"Look for models again.")
	}
	return h.options.Library.Reveal(models[i], path)
}
