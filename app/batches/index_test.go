package batches

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestIndexIsReadable: an index that is too long to be read again is not written, and messages
// about lines are short.
func TestIndexIsReadable(t *testing.T) {
	w := newWorld(t)
	f := w.upload("ann", question("a"))
	w.store.mu.Lock()
	w.store.index.Batches = append(w.store.index.Batches, &storedBatch{Owner: "bob",
		Batch: Batch{ID: "long", Status: completed, CreatedAt: w.now.Unix(),
			Metadata: map[string]string{"a": strings.Repeat("x", maxIndexBytes)}}})
	w.store.mu.Unlock()
	w.refused("ann", http.MethodPost, "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,`+
		`"endpoint":"/v1/chat/completions","completion_window":"24h"}`, f.ID), 413, "is full")
	w.store.mu.Lock()
	n := len(w.store.index.Batches)
	w.store.mu.Unlock()
	if n != 1 {
		t.Errorf("%d batches, expected the one that was there", n)
	}
	long := fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/embeddings","body":{}}`+"\n",
		strings.Repeat("\x01", 500))
	_, errs := validate(strings.NewReader(long+long), "/v1/embeddings")
	for _, e := range errs {
		if len(e.Message) > maxMessageBytes+3 {
			t.Errorf("a message has %d bytes", len(e.Message))
		}
	}
	if len(errs) == 0 {
		t.Error("no error")
	}
}
