package blockstore

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
)

// TestExport reads conversations that share a beginning. Each has the blocks and states of its own
// tokens alone, with the bytes that were saved.
func TestExport(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	a := numbers(1, 700)
	b := join(a, 300, numbers(2, 400)) // shares the first block
	save(t, v, sequence(a, true, 256, 280, 700))
	save(t, v, sequence(b, true, 600))
	for _, c := range []struct {
		tokens []int32
		states []int
	}{{a, []int{256, 280, 700}}, {b, []int{256, 280, 600}}} {
		k := newKeys(testModel.Fingerprint, testModel.Format, s.safe().secret())
		chain := k.chain(c.tokens)
		last := k.key(kindTail, chain[len(chain)-1], c.tokens[len(chain)*BlockTokens:])
		x, err := s.Export(last.String())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x.Tokens, c.tokens) || !slices.Equal(x.States, c.states) {
			t.Errorf("%d tokens, states %v, expected %d and %v", len(x.Tokens), x.States,
				len(c.tokens), c.states)
		}
		want := sequence(c.tokens, true, c.states...)
		for from := 0; from < len(c.tokens); from += BlockTokens {
			to := min(from+BlockTokens, len(c.tokens))
			got, err := x.Block(context.Background(), from, to)
			if err != nil || !equalTensors(got, want.KV(from, to)) {
				t.Errorf("the block at %d: %v", from, err)
			}
		}
		for i, position := range x.States {
			got, err := x.State(context.Background(), position)
			if err != nil || !equalTensors(got, want.States[i].Tensors()) {
				t.Errorf("the state after %d: %v", position, err)
			}
		}
	}
}

func equalTensors(a, b []Tensor) bool {
	return slices.EqualFunc(a, b, func(a, b Tensor) bool {
		return a.Name == b.Name && slices.EqualFunc(a.Pieces, b.Pieces, slices.Equal)
	})
}

// TestExportDamaged: an entry that is damaged is an error, and removed as after any read. Then the
// conversation has lost its beginning.
func TestExportDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(t))
	save(t, s.Model(testModel), sequence(numbers(1, 700), true, 700))
	key := findConversation(t, s, 700).Key.String()
	x, err := s.Export(key)
	if err != nil {
		t.Fatal(err)
	}
	path := entryPath(dir, x.blocks[0].Key)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Block(context.Background(), 0, BlockTokens); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged block: %v", err)
	}
	if _, err := s.Export(key); !errors.Is(err, ErrIncomplete) {
		t.Errorf("without its beginning: %v", err)
	}
	if _, err := s.Export("ffffffff"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such conversation: %v", err)
	}
}

// TestNoPieces: a save whose source has no pieces ends, stores what comes before, and counts as no
// failure of the disk.
func TestNoPieces(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 700)
	q := sequence(tokens, true)
	kv := q.KV
	q.KV = func(from, to int) []Tensor {
		if from == BlockTokens {
			return nil
		}
		return kv(from, to)
	}
	if saved := save(t, v, q); !errors.Is(saved.Err, ErrNoPieces) || saved.Blocks != 1 {
		t.Errorf("saved %+v", saved)
	}
	if n := v.Find(tokens, 700, 0, false).Tokens; n != BlockTokens {
		t.Errorf("found %d tokens", n)
	}
	if st := s.Stats(); st.SaveErrors != 0 || st.LastSaveError != "" {
		t.Errorf("%+v", st)
	}
}
