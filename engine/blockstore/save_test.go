package blockstore

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSaveNeverWaits checks that Save does not block while the writer is busy. Sequences fill the
// queue, and further ones are dropped.
func TestSaveNeverWaits(t *testing.T) {
	o := options(t)
	o.QueueSequences = 2
	s := open(t, t.TempDir(), o)
	v := s.Model(testModel)
	begun, release := make(chan bool, 1), make(chan bool)
	var done sync.WaitGroup
	q := sequence(numbers(1, 256), false)
	kv := q.KV
	q.KV = func(from, to int) []Tensor {
		begun <- true
		<-release
		return kv(from, to)
	}
	done.Add(1)
	q.Done = func(Saved) { done.Done() }
	if !v.Save(q) {
		t.Fatal("refused by an empty queue")
	}
	<-begun
	for i := range 4 {
		q := sequence(numbers(2+i, 256), false)
		q.Done = func(Saved) { done.Done() }
		if i < 2 {
			done.Add(1)
		}
		if got := v.Save(q); got != (i < 2) {
			t.Errorf("save %d: %v", i, got)
		}
	}
	if p := v.Find(numbers(1, 256), 256, 0, false); p.Tokens != 0 {
		t.Errorf("found an entry that is not written yet: %+v", p)
	}
	close(release)
	done.Wait() // a second call of Done would panic
	if st := s.Stats(); st.Dropped != 2 || st.Entries != 3 {
		t.Errorf("stats %+v", st)
	}
}

// TestClose checks that Close calls Done for every queued sequence, and saves as many as it can
// within CloseTimeout.
func TestClose(t *testing.T) {
	for _, hurry := range []bool{false, true} {
		dir := t.TempDir()
		o := options(t)
		if hurry {
			o.CloseTimeout = time.Nanosecond
		}
		s := open(t, dir, o)
		v := s.Model(testModel)
		begun, release := make(chan bool, 1), make(chan bool)
		var mu sync.Mutex
		var results []Saved
		for i := range 5 {
			q := sequence(numbers(i, 600), true, 600)
			kv := q.KV
			q.KV = func(from, to int) []Tensor {
				if i == 0 && from == 0 {
					begun <- true
					<-release
				}
				return kv(from, to)
			}
			q.Done = func(saved Saved) {
				mu.Lock()
				results = append(results, saved)
				mu.Unlock()
			}
			if !v.Save(q) {
				t.Fatal("refused")
			}
		}
		<-begun
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		if hurry {
			<-s.ctx.Done()
		}
		close(release)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if v.Save(sequence(numbers(9, 300), false)) {
			t.Error("a closed store accepted a sequence")
		}
		if p := v.Find(numbers(0, 600), 600, 0, false); p.Tokens != 0 {
			t.Errorf("a closed store found %+v", p)
		}
		if err := s.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
		if len(results) != 5 {
			t.Fatalf("Done was called for %d of 5 sequences", len(results))
		}
		for i, a := range results {
			if hurry != errors.Is(a.Err, ErrClosed) || !hurry && a.Blocks != 3 {
				t.Errorf("hurry %v, sequence %d: %+v", hurry, i, a)
			}
		}
		s = open(t, dir, options(t))
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestSaveRefuses checks that saving an invalid sequence fails and stores nothing.
func TestSaveRefuses(t *testing.T) {
	tokens := numbers(1, 300)
	for want, change := range map[string]func(q *Sequence){
		"must ascend": func(q *Sequence) {
			q.States = []State{stateAt(tokens, 200), stateAt(tokens, 100)}
		},
		"within the tokens": func(q *Sequence) { q.States = []State{{Position: 301}} },
		"at position 0":     func(q *Sequence) { q.States = []State{{Position: 0}} },
		"KV is nil":         func(q *Sequence) { q.KV = nil },
		"the length of piece 0": func(q *Sequence) {
			q.KV = func(int, int) []Tensor { return []Tensor{{"k", [][]byte{{1}, {1, 2}}}} }
		},
		"at least one": func(q *Sequence) {
			q.KV = func(int, int) []Tensor { return []Tensor{{Name: "k"}} }
		},
		"is reserved": func(q *Sequence) {
			q.KV = func(int, int) []Tensor { return []Tensor{{"tokens", [][]byte{{1}}}} }
		},
	} {
		s := open(t, t.TempDir(), options(t))
		q := sequence(tokens, true)
		change(&q)
		saved := save(t, s.Model(testModel), q)
		if saved.Err == nil || !strings.Contains(saved.Err.Error(), want) ||
			s.Stats().Entries != 0 {
			t.Errorf("got %+v, expected an error with %q", saved, want)
		}
	}
}

// TestSaveReadsNewBlocksOnly checks that KV is called only for blocks that are not stored yet.
func TestSaveReadsNewBlocksOnly(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 1000)
	save(t, v, sequence(tokens[:600], true))
	q := sequence(tokens, true)
	var asked []int
	kv := q.KV
	q.KV = func(from, to int) []Tensor {
		asked = append(asked, from, to)
		return kv(from, to)
	}
	save(t, v, q)
	if want := []int{512, 768, 768, 1000}; len(asked) != 4 || asked[0] != want[0] ||
		asked[1] != want[1] || asked[2] != want[2] || asked[3] != want[3] {
		t.Errorf("KV was called for %v, expected %v", asked, want)
	}
}

func TestCutTitle(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"a\xffb":                        "a\uFFFDb",
		strings.Repeat("x", 300):        strings.Repeat("x", 200),
		"x" + strings.Repeat("ä", 150):  "x" + strings.Repeat("ä", 99),
		strings.Repeat("語", 100):        strings.Repeat("語", 66),
		strings.Repeat("x", 200):        strings.Repeat("x", 200),
		strings.Repeat("x", 199) + "ä":  strings.Repeat("x", 199),
		strings.Repeat("x", 198) + "ä":  strings.Repeat("x", 198) + "ä",
		strings.Repeat("x", 196) + "😀.": strings.Repeat("x", 196) + "😀",
	} {
		if got := cutTitle(in); got != want {
			t.Errorf("%q became %q, expected %q", in, got, want)
		}
	}
}
