package blockstore

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"headroom/engine/seal"
)

// The model of these tests has 2 tensors of keys and values in pieces of 32 tokens, and a state of
// one tensor. Every byte is a hash of the tokens up to its position, so tests can recompute it.

const pieceTokens = 32

var testModel = Model{Fingerprint: "fp", Format: "k8v4", Name: "Test 1B"}

// testKey is the installation's key of all tests, nil while TestMain runs them without encryption.
var testKey = fixedKey()

func fixedKey() *seal.Key {
	k, err := seal.KeyOf(bytes.Repeat([]byte{7}, seal.KeyBytes))
	if err != nil {
		panic(err)
	}
	return &k
}

func testSealed() bool { return testKey != nil }

// plainTests is the environment variable that makes the tests of this package, and their child
// processes, use folders that are not encrypted.
const plainTests = "HEADROOM_BLOCKSTORE_PLAIN"

// TestMain runs the tests with encryption and then, unless they are to be short, a short run of
// them without it.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(plainTests) != "" {
		testKey = nil
		os.Exit(m.Run())
	}
	code := m.Run()
	again := code == 0 && !testing.Short() && flag.Lookup("test.fuzz").Value.String() == "" &&
		flag.Lookup("test.bench").Value.String() == "" &&
		os.Getenv(killDir) == ""
	if again {
		testKey = nil
		os.Setenv(plainTests, "1")
		if os.Getenv("HEADROOM_LONG") == "" {
			flag.Set("test.short", "true")
		}
		code = m.Run()
	}
	os.Exit(code)
}

// options returns options without limits.
func options(t testing.TB) Options {
	return Options{MinFreeBytes: -1, DailyWriteBytes: -1, QueueSequences: 64, Key: testKey,
		Log: slog.New(slog.DiscardHandler), disk: &fakeDisk{}}
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

// settle waits for the first sweep.
func settle(t testing.TB, s *Store) {
	t.Helper()
	if s.index == nil {
		t.Fatal("no index")
	}
	<-s.index.adopted
}

// numbers returns n tokens. Results of different lengths for one seed share their beginning.
func numbers(seed, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32((i*7919 + seed*104729 + i*i*seed) % 50000)
	}
	return tokens
}

// mix hashes tokens, given a hash of those before them.
func mix(h uint64, tokens []int32) uint64 {
	for _, token := range tokens {
		h = (h ^ uint64(uint32(token))) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// kvPieces returns keys and values of 3 bytes each for positions [from, to).
func kvPieces(tokens []int32, from, to int) []Tensor {
	return kvPiecesAfter(mix(1, tokens[:from]), tokens, from, to)
}

// kvPiecesAfter is kvPieces for a known hash of tokens[:from].
func kvPiecesAfter(h uint64, tokens []int32, from, to int) []Tensor {
	tensors := []Tensor{{Name: "0.k"}, {Name: "0.v"}}
	for at := from; at < to; at += pieceTokens {
		k, v := make([]byte, 3*pieceTokens), make([]byte, 3*pieceTokens)
		for i := range min(pieceTokens, to-at) {
			h = mix(h, tokens[at+i:at+i+1])
			copy(k[3*i:], []byte{byte(h), byte(h >> 8), byte(h >> 16)})
			copy(v[3*i:], []byte{byte(h >> 24), byte(h >> 32), byte(h >> 40)})
		}
		tensors[0].Pieces = append(tensors[0].Pieces, k)
		tensors[1].Pieces = append(tensors[1].Pieces, v)
	}
	return tensors
}

// stateBytes returns the state after tokens.
func stateBytes(tokens []int32) []byte {
	b := make([]byte, 500)
	h := mix(2, tokens)
	for i := range b {
		h = mix(h, []int32{int32(i)})
		b[i] = byte(h >> 13)
	}
	return b
}

func stateAt(tokens []int32, position int) State {
	return State{position, func() []Tensor {
		return []Tensor{{"1.s", [][]byte{stateBytes(tokens[:position])}}}
	}}
}

func sequence(tokens []int32, tail bool, states ...int) Sequence {
	at, h := 0, mix(1, nil) // h is the hash of tokens[:at]: blocks are written in order
	q := Sequence{Tokens: tokens, Tail: tail,
		KV: func(from, to int) []Tensor {
			if from < at {
				at, h = 0, mix(1, nil)
			}
			at, h = from, mix(h, tokens[at:from])
			return kvPiecesAfter(h, tokens, from, to)
		},
		Title: "a conversation", SecondsPerToken: 0.01}
	for _, p := range states {
		q.States = append(q.States, stateAt(tokens, p))
	}
	return q
}

// save saves a sequence and waits for Done.
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
	err := readAndCount(context.Background(), v, p, func(b Block) []Tensor {
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
	if p.State != nil && !bytes.Equal(state[0].Pieces[0], stateBytes(tokens[:p.Tokens])) {
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
	if again := save(t, v, sequence(tokens, true, 256, 600, 700)); again.Err != nil ||
		again.Blocks+again.States != 0 {
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
