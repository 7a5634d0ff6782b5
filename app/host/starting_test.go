package host

import (
	"testing"
	"time"

	"headroom/app/library"
	"headroom/engine"
)

// TestListsDoNotWaitForever: while a model folder does not answer, lists wait no longer than a
// request, and then have the bundled model. When the folder answers, they have all models.
func TestListsDoNotWaitForever(t *testing.T) {
	answer := make(chan struct{})
	h := newTestHostWith(t, func(o *Options) {
		root := o.Library.Roots()
		o.Library = library.New(root, engine.Options{},
			func(src engine.Source, _ engine.Options) (engine.Description, error) {
				if src.Dir != "" {
					<-answer
				}
				return engine.Description{Architecture: "fake"}, nil
			})
		o.Watch = &library.WatchOptions{}
		o.Requests = func() RequestRules { return RequestRules{Load: true, Wait: time.Millisecond} }
	})
	sizes := make(chan [2]int, 1)
	go func() { sizes <- [2]int{len(h.List()), len(h.Models(0).Models)} }()
	select {
	case got := <-sizes:
		if got != [2]int{1, 1} || h.Listed() {
			t.Errorf("while a folder does not answer, the lists have %v models, expected 1", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("the lists wait for a folder that does not answer")
	}
	close(answer)
	if err := h.AwaitStart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if listed, models := len(h.List()), len(h.Models(0).Models); listed != 4 || models != 4 {
		t.Errorf("the lists have %d and %d models, expected 4", listed, models)
	}
}
