package blockstore

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"path/filepath"
	"testing"
)

// The model of these tests: 2 tensors of keys and values in pieces of 32 tokens, and a state of 1; all bytes follow from the tokens up to
// them, so that whatever is loaded can be recomputed.

const pieceTokens = 32

var testModel = Model{Fingerprint: "fp", Format: "k8v4", Name: "Test 1B"}

// options are those of a store that writes as much as it likes, and waits for no disk.
func options(t testing.TB) Options {
	return Options{MinFreeBytes: -1, DailyWriteBytes: -1, QueueSequences: 64, Log: slog.New(slog.DiscardHandler), disk: &fakeDisk{}}
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// settle waits for the sweep.
func settle(t testing.TB, s *Store) {
	t.Helper()
	if s.index == nil {
		t.Fatal("no index")
	}
	<-s.index.adopted
}

// numbers is a sequence of n tokens: the same first ones for the same seed.
func numbers(seed, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32((i*7919 + seed*104729 + i*i*seed) % 50000)
	}
	return tokens
}

// content is the n bytes of a tensor for tokens[from:to] of a sequence.
func content(name string, tokens []int32, from, to, n int) []byte {
	h := fnv.New64a()
	h.Write([]byte(name))
	h.Write(appendTokens(nil, tokens[:to]))
	x := h.Sum64() + uint64(from)
	b := make([]byte, n)
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}

func kvPieces(tokens []int32, from, to int) []Tensor {
	tensors := []Tensor{{Name: "0.k"}, {Name: "0.v"}}
	for i := range tensors {
		for at := from; at < to; at += pieceTokens {
			end := min(at+pieceTokens, to)
			// A piece's bytes follow from its own tokens, so that the beginning of a longer one is not that of a shorter.
			p := make([]byte, 0, pieceTokens*3)
			for j := at; j < at+pieceTokens; j++ {
				if j < end {
					p = append(p, content(tensors[i].Name, tokens, j, j+1, 3)...)
				} else {
					p = append(p, 0, 0, 0)
				}
			}
			tensors[i].Pieces = append(tensors[i].Pieces, p)
		}
	}
	return tensors
}

func stateAt(tokens []int32, position int) State {
	return State{position, []Tensor{{"1.s", [][]byte{content("s", tokens, 0, position, 500)}}}}
}

func sequence(tokens []int32, tail bool, states ...int) Sequence {
	q := Sequence{Tokens: tokens, Tail: tail, KV: func(from, to int) []Tensor { return kvPieces(tokens, from, to) },
		Title: "a conversation", SecondsPerToken: 0.01}
	for _, p := range states {
		q.States = append(q.States, stateAt(tokens, p))
	}
	return q
}

// save saves and waits.
func save(t testing.TB, v *View, q Sequence) Saved {
	t.Helper()
	done := make(chan Saved, 1)
	q.Done = func(s Saved) { done <- s }
	if !v.Save(q) {
		t.Fatal("Save was refused")
	}
	return <-done
}

var errWrong = errors.New("wrong bytes")

// load loads a prefix and compares every byte of it.
func load(v *View, tokens []int32, p Prefix) error {
	type target struct {
		b Block
		t []Tensor
	}
	var blocks []target
	var state []Tensor
	err := v.Load(context.Background(), p, func(b Block) []Tensor {
		n := (b.To - b.From + pieceTokens - 1) / pieceTokens
		kv := []Tensor{{Name: "0.k"}, {Name: "0.v"}}
		for i := range kv {
			for range n {
				kv[i].Pieces = append(kv[i].Pieces, make([]byte, pieceTokens*3))
			}
		}
		blocks = append(blocks, target{b, kv})
		return kv
	}, func() []Tensor {
		state = []Tensor{{"1.s", [][]byte{make([]byte, 500)}}}
		return state
	})
	if err != nil {
		return err
	}
	for _, b := range blocks {
		want := kvPieces(tokens, b.b.From, b.b.To)
		for i := range want {
			got := bytes.Join(b.t[i].Pieces, nil)[:3*(b.b.To-b.b.From)]
			if !bytes.Equal(got, bytes.Join(want[i].Pieces, nil)[:3*(b.b.To-b.b.From)]) {
				return errWrong
			}
		}
	}
	if p.State != nil && !bytes.Equal(state[0].Pieces[0], content("s", tokens, 0, p.Tokens, 500)) {
		return errWrong
	}
	return nil
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	tokens := numbers(1, 700)
	s := open(t, dir, options(t))
	v := s.Model(testModel)
	saved := save(t, v, sequence(tokens, true, 256, 600, 700))
	if saved.Err != nil || saved.Blocks != 3 || saved.States != 3 {
		t.Fatalf("saved %+v", saved)
	}
	if again := save(t, v, sequence(tokens, true, 256, 600, 700)); again.Err != nil || again.Blocks+again.States != 0 {
		t.Errorf("saved again: %+v", again)
	}
	for range 2 { // again after a restart
		for _, recurrent := range []bool{false, true} {
			p := v.Find(tokens, 650, 0, recurrent)
			want := map[bool]int{false: 650, true: 600}[recurrent]
			if p.Tokens != want || len(p.Blocks) != 3 || (p.State != nil) != recurrent {
				t.Fatalf("found %+v, expected %d tokens", p, want)
			}
			if err := load(v, tokens, p); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, options(t))
		v = s.Model(testModel)
	}
	if st := s.Stats(); st.Hits != 4 || st.Entries != 6 || st.Damaged != 0 {
		t.Errorf("stats %+v", st)
	}
}
