package batches

import (
	"encoding/json"
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
	_, errs := validated(strings.NewReader(long+long), "/v1/embeddings")
	for _, e := range errs {
		if len(e.Message) > maxMessageBytes+3 {
			t.Errorf("a message has %d bytes", len(e.Message))
		}
	}
	if len(errs) == 0 {
		t.Error("no error")
	}
}

// TestAcceptedIsSaved: a batch that was accepted although the list is nearly full can be saved when
// it ends, however long its errors are. Others are refused by then.
func TestAcceptedIsSaved(t *testing.T) {
	w := newWorld(t)
	w.store.o.indexText = 1 << 20
	bad := w.upload("ann", strings.Repeat(fmt.Sprintf(
		`{"custom_id":"a","url":"/v1/%s","body":{}}`+"\n", strings.Repeat("<", 300)), maxLineErrors))
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions",`+
		`"completion_window":"24h"}`, bad.ID)
	fill := &storedBatch{Owner: "bob", Batch: Batch{ID: "long", Status: completed,
		CreatedAt: w.now.Unix(), Metadata: map[string]string{"a": ""}}}
	w.store.mu.Lock()
	w.store.index.Batches = append(w.store.index.Batches, fill)
	text, _ := json.Marshal(w.store.index)
	const others = 4000 // more than the text of two new batches and their files
	fill.Metadata["a"] = strings.Repeat("x", 1<<20-2*maxGrowth-len(text)-others)
	w.store.mu.Unlock()
	share, err := w.spare.Take(t.Context()) // so that no batch ends before all are there
	if err != nil {
		t.Fatal(err)
	}
	first, second := w.create("ann", bad.ID), w.create("ann", bad.ID)
	w.refused("ann", http.MethodPost, "/v1/batches", body, 413, "is full")
	w.store.mu.Lock()
	fill.Metadata["a"] += strings.Repeat("x", others)
	w.store.mu.Unlock()
	kind, form := formOf("x", "purpose", "batch")
	if status, text := w.ask("ann", http.MethodPost, "/v1/files", kind, form); status != 413 {
		t.Errorf("an upload: %d %s", status, text)
	}
	share.Give()
	for _, b := range []Batch{first, second} {
		if b = w.await("ann", b.ID, has(failed)); len(b.Errors.Data) != maxLineErrors {
			t.Errorf("%d errors", len(b.Errors.Data))
		}
	}
	w.store.Close()
	saved, err := readIndex(w.store.indexPath(), w.key.Derive("batches", nil))
	if n := len(saved.Batches); err != nil || n != 3 || saved.Batches[n-1].Status != failed ||
		saved.Batches[n-2].Status != failed {
		t.Errorf("%d batches are saved, %v, or they have not ended", n, err)
	}
}

// TestMetadata: one key cannot fill the list with metadata.
func TestMetadata(t *testing.T) {
	w := newWorld(t)
	w.store.mu.Lock()
	full := &storedBatch{Owner: "ann", Batch: Batch{Metadata: map[string]string{
		"a": strings.Repeat("x", maxMetadataBytes/6-20)}}}
	w.store.index.Batches = append(w.store.index.Batches, full)
	small, large := map[string]string{"a": "b"}, map[string]string{"a": strings.Repeat("<", 20)}
	for owner, fits := range map[string]bool{"ann": false, "bob": true} {
		if err := w.store.roomForBatch(owner, small); err != nil {
			t.Errorf("%s: %v", owner, err)
		}
		if err := w.store.roomForBatch(owner, large); (err == nil) != fits {
			t.Errorf("%s: %v", owner, err)
		}
	}
	w.store.index.Batches = nil
	w.store.mu.Unlock()
}
