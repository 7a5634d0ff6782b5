package host

import (
	"testing"

	"headroom/app/demo"
	"headroom/engine/problem"
)

// TestTexts: the tokenizer of a model that is not loaded is read without loading it, and read once.
func TestTexts(t *testing.T) {
	h := newTestHost(t)
	if _, _, err := h.Texts(""); problem.From(err).Code != problem.NotRunning {
		t.Errorf("without a name and without a loaded model: %v", err)
	}
	if _, _, err := h.Texts("nobody"); problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("an unknown model: %v", err)
	}
	id, first, err := h.Texts(demo.ID)
	if err != nil || id != demo.ID || first.Tokenizer() == nil || first.Template() == nil {
		t.Fatalf("the bundled model: %q, %v", id, err)
	}
	if _, again, err := h.Texts(demo.ID); err != nil || again != first {
		t.Errorf("it was read again: %v", err)
	}
	e := h.run("a")
	if id, m, err := h.Texts(""); err != nil || id != "a" || m != e {
		t.Errorf("a loaded model: %q, %v", id, err)
	}
	if _, _, err := h.Texts("broken"); err == nil {
		t.Error("a broken model has a tokenizer")
	}
	if h.most != 1 {
		t.Errorf("%d models were loaded, expected a alone", h.most)
	}
}
