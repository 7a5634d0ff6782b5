package host

// First models for a machine that has none: in MLX format, of supported architectures, one for each
// size of memory. suggestions.json has their shapes, so what they need comes from the same dry run
// as for a model on disk, and the list says the same once one is downloaded. Each name was found in
// public documents or programs that load it from the hub (November 2026). The hub itself was not
// queried.

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"sync"

	"headroom/app/library"
	"headroom/app/memory"
	"headroom/engine"
)

// Suggestion is a model that could be downloaded.
type Suggestion struct {
	ID            string `json:"id"`
	Note          string `json:"note"`          // the key of the text that says what it is good for
	DownloadBytes int64  `json:"downloadBytes"` // the approximate size of its files
	Licence       string `json:"licence"`       // as the hub abbreviates it
	Judgement
}

//go:embed suggestions.json
var suggestionsJSON []byte

// suggestion is an entry of suggestions.json: the smallest first.
type suggestion struct {
	ID            string          `json:"id"`
	Note          string          `json:"note"`
	DownloadBytes int64           `json:"downloadBytes"`
	Licence       string          `json:"licence"`
	Config        json.RawMessage `json:"config"`

	description engine.Description
}

// suggestions are the models that can be suggested, described once with the options that each would
// be loaded with.
type suggestions struct {
	once sync.Once
	all  []suggestion
}

func (s *suggestions) described(h *Host) []suggestion {
	s.once.Do(func() {
		if err := json.Unmarshal(suggestionsJSON, &s.all); err != nil {
			h.log.Error("no models can be suggested", "err", err)
		}
		s.all = slices.DeleteFunc(s.all, func(one suggestion) bool { return one.Config == nil })
		for i := range s.all {
			one := &s.all[i]
			d, err := library.DescribeSource(engine.Random(one.Config), h.engineOptions(one.ID))
			if err != nil {
				h.log.Error("a suggested model cannot be described", "model", one.ID, "err", err)
			}
			one.description = d
		}
		s.all = slices.DeleteFunc(s.all,
			func(one suggestion) bool { return one.description.ContextTokens == 0 })
	})
	return s.all
}

// leastTokensPerSecond is about as fast as people read.
const leastTokensPerSecond = 5

// Suggestions returns three models to begin with, the largest first: the three largest that fit and
// answer as fast as people read. If there are fewer, the smallest others follow.
func (h *Host) Suggestions() []Suggestion {
	_, _, room := h.readMemory()
	return h.suggest(room, memory.BandwidthBytes())
}

func (h *Host) suggest(roomBytes int64, bandwidthBytes float64) []Suggestion {
	good, others := []Suggestion{}, []Suggestion{} // the smallest first
	for _, one := range h.suggestions.described(h) {
		s := Suggestion{ID: one.ID, Note: one.Note, DownloadBytes: one.DownloadBytes,
			Licence:   one.Licence,
			Judgement: judge(one.Config, one.description, roomBytes, bandwidthBytes)}
		slow := s.TokensPerSecond > 0 && s.TokensPerSecond < leastTokensPerSecond
		if s.Fits == memory.No || slow {
			others = append(others, s)
		} else {
			good = append(good, s)
		}
	}
	const most = 3
	good = good[max(0, len(good)-most):]
	list := append(good, others[:min(len(others), most-len(good))]...)
	slices.SortFunc(list,
		func(a, b Suggestion) int { return cmp.Compare(b.NeedBytes, a.NeedBytes) })
	return list
}

// The share of the available memory for weights, in percent, and their bytes for a thousand
// parameters at 4 bits: the bits themselves, and a scale and a bias for each group of 64.
const (
	weightsPercent     = 85
	bytesPerKiloParams = 563
)

// largestParameters estimates how many parameters a model may have that fits, for a person who has
// not chosen one yet.
func largestParameters(roomBytes int64) int64 {
	return roomBytes / 100 * weightsPercent / bytesPerKiloParams * 1000
}
