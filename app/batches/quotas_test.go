package batches

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"headroom/app/batch"
)

// TestQuotas: what one key may store, and how many batches there may be. Another key is not
// affected.
func TestQuotas(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release) // before the store is closed
	w.fake.hold = func(string) { <-hold }
	f := w.upload("ann", question("a"))
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions",`+
		`"completion_window":"24h"}`, f.ID)
	for range maxOwnUnfinished {
		w.create("ann", f.ID)
	}
	w.refused("ann", http.MethodPost, "/v1/batches", body, 429, "an API key may have 32")
	other := w.upload("", question("a"))
	for range maxUnfinished - maxOwnUnfinished {
		w.create("", other.ID)
	}
	third := strings.Replace(body, f.ID, w.upload("bob", question("a")).ID, 1)
	w.refused("bob", http.MethodPost, "/v1/batches", third, 429,
		"all API keys together may have 64")
	release()
	w.store.mu.Lock()
	for i := range maxBatches {
		w.store.index.Batches = append(w.store.index.Batches, &storedBatch{Owner: "bob",
			Batch: Batch{ID: fmt.Sprint("old", i), Status: completed, CreatedAt: w.now.Unix()}})
	}
	w.store.mu.Unlock()
	g := w.upload("bob", question("a"))
	w.refused("bob", http.MethodPost, "/v1/batches", strings.Replace(body, f.ID, g.ID, 1), 429,
		"may have 1000 of the last 31 days")

	kind, form := formOf("x", "purpose", "batch")
	full := func(what string, part string) {
		if status, text := w.ask("bob", http.MethodPost, "/v1/files", kind, form); status != 409 ||
			!strings.Contains(text, part) {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	w.store.mu.Lock()
	stored := w.store.index.file(g.ID)
	stored.Bytes = maxBytes
	w.store.mu.Unlock()
	full("too many bytes", "stored too much")
	w.store.mu.Lock()
	stored.Bytes = 1
	for i := range maxFiles {
		w.store.index.Files = append(w.store.index.Files, &storedFile{Owner: "bob",
			File: File{ID: fmt.Sprint("f", i), ExpiresAt: w.now.Unix() + 9}})
	}
	w.store.mu.Unlock()
	full("too many files", "1000 files")
	w.upload("ann", question("a"))
	many := []string{"purpose", "batch"}
	for range maxParts {
		many = append(many, "purpose", "batch")
	}
	kind, form = formOf("x", many...)
	if status, text := w.ask("ann", http.MethodPost, "/v1/files", kind, form); status != 400 ||
		!strings.Contains(text, "too many fields") {
		t.Errorf("many fields: %d %s", status, text)
	}
	long := `{"custom_id":"a","body":"` + strings.Repeat("x", batch.MaxLineBytes)
	if _, errs := validated(strings.NewReader(long), batch.Endpoints[0]); len(errs) != 1 ||
		errs[0].Code != "invalid_json_line" {
		t.Errorf("a long line: %+v", errs)
	}
	lines := questions("q", maxLines+1)
	if _, errs := validated(strings.NewReader(lines), batch.Endpoints[0]); len(errs) != 1 ||
		errs[0].Code != "too_many_requests" {
		t.Errorf("many lines: %+v", errs)
	}
}
