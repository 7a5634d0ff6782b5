package host

import (
	"sync"

	"headroom/app/library"
	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/problem"
)

// textState holds the tokenizer and the template of the model whose Texts have been read last.
type textState struct {
	mu    sync.Mutex // held while they are read
	model library.Model
	texts *engine.TextProcessor // nil: none
}

// Texts implements server.TextModels. It reads the tokenizer and the template of a model that is
// not loaded, and keeps them until another model's are read.
func (h *Host) Texts(name string) (id string, m generate.Model, err error) {
	loaded, err := h.Acquire(name)
	if err == nil {
		return loaded.ID, loaded.Engine, nil
	}
	if code := problem.From(err).Code; code != problem.NotRunning && code != problem.Loading {
		return "", nil, err
	}
	model := h.textModel(name)
	if model == nil {
		return "", nil, err
	}
	s := &h.texts
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil || s.model.ID != model.ID || !s.model.UpdatedAt.Equal(model.UpdatedAt) {
		texts, err := engine.ReadTextProcessor(model.Source)
		if err != nil {
			return "", nil, err
		}
		s.model, s.texts = *model, texts
	}
	return model.ID, s.texts, nil
}

// textModel returns the model that a request for texts names, nil if there is none that can be
// used.
func (h *Host) textModel(name string) *library.Model {
	rules, models := h.requestRules(), h.models.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	_, m, _, err := h.asked(name, models, rules)
	if err != nil || m.Err != nil {
		return nil
	}
	return &m
}
