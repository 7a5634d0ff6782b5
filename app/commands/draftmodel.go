package commands

// The draft model of a model. A flag or a setting names it, by a folder or as models are named.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// draftModel returns the draft model of a model: that of the flag, which is required, or else that
// of the model's settings; nil: there is none.
func (f *ModelFlags) draftModel(s settings.Settings, id string) *engine.DraftModel {
	m := s.ForModel(id)
	name := cmp.Or(f.DraftModel, m.DraftModel)
	if name == "" {
		return nil
	}
	place := foundModels.find(f.roots(s), name, aliases(s))
	return &engine.DraftModel{Source: place.source, NotFound: place.notFound, Name: name,
		Required: f.DraftModel != "", Tokens: cmp.Or(f.NumDraftTokens, m.NumDraftTokens)}
}

// waysOf says in which ways tokens are decoded ahead for a loaded model, and why its draft model
// does not draft.
func waysOf(e host.EngineState) string {
	name := oneLine(e.DraftModel)
	var ways []string
	switch {
	case e.Drafter == engine.SpeculateDraft:
		ways = append(ways, "by the draft model "+name)
	case e.Drafter == engine.SpeculateDFlash:
		ways = append(ways, "by the DFlash drafter "+name)
	case e.Drafter == engine.SpeculateMTP && name != "":
		ways = append(ways, "by the block "+name)
	case e.Drafter == engine.SpeculateMTP:
		ways = append(ways, "by the model's own block")
	}
	if e.Lookups {
		ways = append(ways, "by lookup")
	}
	text := cmp.Or(strings.Join(ways, " and "), "off")
	if e.DraftModelUnused != "" {
		text += "; the draft model is not used: " + oneLine(e.DraftModelUnused)
	}
	return text
}

// foundModels remembers where models are, for a moment: options are asked for often, and each time
// the folders would be searched.
var foundModels modelPlaces

const placeStays = 10 * time.Second

// modelPlaces remembers the places of models by the folders to search and the name.
type modelPlaces struct {
	mu    sync.Mutex
	known map[string]modelPlace
}

type modelPlace struct {
	source   engine.Source
	notFound string // why there is no such model, and which there are; "": the source is one
	at       time.Time
}

// find returns the model of a name or in a folder. If there is none, the source is a folder of that
// name, which is not one of a model.
func (p *modelPlaces) find(roots []string, name string,
	aliases func(id string) []string) modelPlace {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := strings.Join(append(slices.Clone(roots), name), "\x00")
	if place, ok := p.known[key]; ok && time.Since(place.at) < placeStays {
		return place
	}
	// The models are not described: that would ask for their options, and so come here again.
	l := library.New(roots, engine.Options{},
		func(engine.Source, engine.Options) (engine.Description, error) {
			return engine.Description{}, nil
		})
	place := modelPlace{source: engine.Source{Dir: name}, at: time.Now()}
	if m, err := l.ResolveNamed(nil, name, aliases); err == nil {
		place.source = m.Source
	} else if wrong := problem.From(err); wrong.Code == problem.ModelNotFound {
		place.notFound = fmt.Sprintf("there is no model %q here, %s", name, wrong.Why)
	}
	if p.known == nil {
		p.known = map[string]modelPlace{}
	}
	p.known[key] = place
	return place
}
