package batches

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"headroom/engine/seal"
)

// TestLongRequests: requests with long lines take several slots, so that few of them are in memory;
// those that wait to be sent again take none. All are answered.
func TestLongRequests(t *testing.T) {
	w := newWorld(t)
	w.store.o.slotBytes = 1000
	var running, most atomic.Int64
	w.fake.reply = func(content string, n int) (int, string) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		if n < 3 {
			return http.StatusServiceUnavailable, "{}"
		}
		return http.StatusOK, "{}"
	}
	const n = 5
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"custom_id":"%d","url":"/v1/chat/completions","body":{"messages":[`+
			`{"content":"%d%s"}]}}`+"\n", i, i, strings.Repeat("x", 2000))
	}
	b := w.await("", w.create("", w.upload("", text.String()).ID).ID, has(completed))
	if b.RequestCounts.Completed+b.RequestCounts.Failed != n || len(w.fake.asked) != 3*n {
		t.Errorf("%+v after %d requests", b.RequestCounts, len(w.fake.asked))
	}
	if got := most.Load(); got > 1 { // each takes 3 of 4 slots
		t.Errorf("%d long requests ran at once", got)
	}
	if len(w.store.slots) > 0 || len(w.store.turn) > 0 {
		t.Errorf("%d slots are not given back", len(w.store.slots))
	}
}

// TestPausedHaveNoBody: a request that waits to be sent again is not in memory.
func TestPausedHaveNoBody(t *testing.T) {
	w := newWorld(t)
	f := w.upload("", "\n"+question("a")+question("b"))
	r := &run{s: w.store, b: &storedBatch{Batch: Batch{InputFileID: f.ID}}, key: w.store.key,
		answered: map[idHash]bool{}}
	in, err := r.openInput(place{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.file.close()
	for _, id := range []string{"a", "b"} {
		j, err := r.next(t.Context(), in)
		if err != nil || j == nil || j.CustomID != id || j.slots != 1 {
			t.Fatalf("%+v, %v", j, err)
		}
		body := string(j.Body)
		if r.drop(j); len(j.Body) > 0 || len(w.store.slots) > 0 {
			t.Errorf("after drop: %+v, %d slots", j, len(w.store.slots))
		}
		if err := r.again(t.Context(), j); err != nil || j.CustomID != id ||
			string(j.Body) != body {
			t.Errorf("again: %+v, %v", j, err)
		}
		r.drop(j)
	}
	if j, err := r.next(t.Context(), in); j != nil || err != nil || len(w.store.slots) > 0 {
		t.Errorf("at the end: %+v, %v", j, err)
	}
}

// TestCancelBeforeValidation: a batch that is cancelled while it is validated, or waits for that,
// has a line for each request, too.
func TestCancelBeforeValidation(t *testing.T) {
	w := newWorld(t)
	share, err := w.spare.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good := w.create("", w.upload("", questions("q", 7)).ID)
	bad := w.create("", w.upload("", question("a")+"x").ID)
	restarted := w.create("ann", w.upload("ann", questions("r", 3)).ID)
	for _, b := range []struct{ key, id string }{{"", good.ID}, {"", bad.ID},
		{"ann", restarted.ID}} {
		got := must[Batch](w, b.key, http.MethodPost, "/v1/batches/"+b.id+"/cancel", "")
		if got.Status != cancelling {
			t.Fatalf("%+v, expected no validation while another has its turn", got)
		}
	}
	w.begin() // the server restarts
	share.Give()
	good = w.await("", good.ID, has(cancelled))
	faults := w.lines("", good.ErrorFileID)
	if len(faults) != 7 || !strings.Contains(faults["q6"], `"batch_cancelled"`) ||
		good.RequestCounts != (Counts{7, 0, 7}) || good.InProgressAt != nil {
		t.Errorf("%+v, lines %q", good, faults)
	}
	bad = w.await("", bad.ID, has(cancelled))
	if bad.ErrorFileID != nil || bad.Errors == nil || *bad.Errors.Data[0].Line != 2 {
		t.Errorf("%+v", bad)
	}
	if got := w.await("ann", restarted.ID, has(cancelled)); got.RequestCounts.Failed != 3 {
		t.Errorf("%+v", got)
	}
	if len(w.fake.asked) > 0 {
		t.Errorf("%q was asked", w.fake.asked)
	}
}

// TestByteOrderMark: a file may begin with one.
func TestByteOrderMark(t *testing.T) {
	w := newWorld(t)
	f := w.upload("", "\uFEFF"+questions("q", 2))
	b := w.await("", w.create("", f.ID).ID, has(completed))
	if b.RequestCounts.Completed != 2 {
		t.Errorf("%+v", b)
	}
}

// TestSkip: from every place on the content is what it is when it is read as a whole, also in a
// file with several segments.
func TestSkip(t *testing.T) {
	path, key, id := filepath.Join(t.TempDir(), "x"), seal.NewKey(), "file-x"
	var want strings.Builder
	end := int64(0)
	for _, records := range [][]int{{3, 9, 9}, {1}, {20, 5}} {
		w, err := create(path, key, id)
		if end > 0 {
			w, err = resume(path, key, id, end)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range records {
			text := strings.Repeat(fmt.Sprint(n%10), n)
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
			want.WriteString(text)
		}
		if end, err = w.file.Seek(0, io.SeekCurrent); err != nil {
			t.Fatal(err)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	}
	all := want.String()
	for from := range len(all) + 1 {
		r, err := open(path, key, id)
		if err != nil {
			t.Fatal(err)
		}
		err = r.skip(int64(from))
		rest, _ := io.ReadAll(r)
		if r.close(); err != nil || string(rest) != all[from:] {
			t.Errorf("from %d: %q, expected %q, %v", from, rest, all[from:], err)
		}
	}
}
