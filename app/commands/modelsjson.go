package commands

// The list of models as JSON, for scripts.

import (
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine/server"
)

// modelsDocument is what `headroom models --json` prints.
type modelsDocument struct {
	AvailableBytes int64        `json:"available_bytes"` // for a model
	MemoryBytes    int64        `json:"memory_bytes"`
	Models         []modelEntry `json:"models"`
}

// modelEntry is a model of the list. Needs and Fits are there only for one that can be loaded, and
// Reason for the others.
type modelEntry struct {
	ID           string     `json:"id"`
	Folder       string     `json:"folder,omitempty"` // "": it is bundled
	State        string     `json:"state"`
	Reason       string     `json:"reason,omitempty"`
	Architecture string     `json:"architecture,omitempty"`
	Task         string     `json:"task,omitempty"` // "": it generates text
	Quantization string     `json:"quantization,omitempty"`
	SizeBytes    int64      `json:"size_bytes,omitempty"`
	NeedsBytes   int64      `json:"needs_bytes,omitempty"`
	Fits         memory.Fit `json:"fits,omitempty"`
	Adapters     []string   `json:"adapters,omitempty"` // by the names that requests use
}

// documentOf returns the list of models with room bytes available for one.
func documentOf(models []library.Model, reading memory.Reading, room int64) modelsDocument {
	d := modelsDocument{AvailableBytes: room, MemoryBytes: reading.TotalBytes,
		Models: []modelEntry{}}
	for _, m := range models {
		e := modelEntry{ID: m.ID, Folder: m.Dir, State: string(m.State), SizeBytes: m.SizeBytes}
		if m.Err != nil {
			e.Reason = m.Err.Error()
		} else {
			of := m.Description
			need := host.EstimateNeed(of, room)
			e.Architecture, e.Task, e.Quantization = of.Architecture, string(of.Task),
				of.Quantization
			e.SizeBytes, e.NeedsBytes, e.Fits = of.SizeBytes, need, memory.Fits(need, room)
		}
		for _, a := range m.Adapters {
			e.Adapters = append(e.Adapters, m.ID+server.AdapterSign+a.Name)
		}
		d.Models = append(d.Models, e)
	}
	return d
}
