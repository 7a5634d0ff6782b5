package blockstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// ranges returns the positions of a prefix's blocks.
func ranges(p Prefix) string {
	text := ""
	for _, b := range p.Blocks {
		text += fmt.Sprintf("[%d,%d)", b.From, b.To)
	}
	return text
}

// join returns the first n tokens of a, followed by b.
func join(a []int32, n int, b []int32) []int32 { return append(slices.Clone(a[:n]), b...) }

func TestFind(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	a := numbers(1, 1200)
	b := join(a, 700, numbers(2, 200)) // forks inside the third block
	save(t, v, sequence(a, true, 100, 256, 600, 1100, 1200))
	save(t, v, sequence(b, true, 900))
	hole := numbers(5, 1000) // its second block is missing
	save(t, v, sequence(hole, false, 256, 300, 768))
	if err := os.Remove(entryPath(s.dir, v.keys.chain(hole)[1])); err != nil {
		t.Fatal(err)
	}
	// Load discovers that the file is gone.
	if err := load(v, hole, v.Find(hole, 512, 0, false)); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	short := numbers(6, 40)
	save(t, v, sequence(short, true, 40))
	save(t, v, sequence(short[:20], true, 10, 20)) // only the states are new

	for _, c := range []struct {
		name         string
		tokens       []int32
		limit, have  int
		recurrent    bool
		want         int
		blocks       string
		withoutState bool
	}{
		{name: "all, tail included", tokens: a, limit: 1200, want: 1200,
			blocks: "[0,256)[256,512)[512,768)[768,1024)[1024,1200)"},
		{name: "more than is stored", tokens: join(a, 1200, numbers(9, 500)), limit: 1700,
			want: 1200, blocks: "[0,256)[256,512)[512,768)[768,1024)[1024,1200)"},
		{name: "limit in a tail", tokens: a, limit: 1100, want: 1100,
			blocks: "[0,256)[256,512)[512,768)[768,1024)[1024,1100)"},
		{name: "limit in a block", tokens: a, limit: 300, want: 300, blocks: "[0,256)[256,300)"},
		{name: "limit at a boundary", tokens: a, limit: 512, want: 512, blocks: "[0,256)[256,512)"},
		{name: "limit 0", tokens: a},
		{name: "limit below 0", tokens: a, limit: -5},
		{name: "limit after the last token", tokens: a[:256], limit: 5000, want: 256,
			blocks: "[0,256)"},
		{name: "the other fork", tokens: b, limit: 900, want: 900,
			blocks: "[0,256)[256,512)[512,768)[768,900)"},
		{name: "a third fork", tokens: join(a, 705, []int32{1, 2, 3}), limit: 708, want: 705,
			blocks: "[0,256)[256,512)[512,705)"},
		{name: "unknown", tokens: numbers(8, 600), limit: 600},
		{name: "another's first tokens", tokens: join(a, 10, numbers(8, 600)), limit: 610, want: 10,
			blocks: "[0,10)"},
		{name: "have inside a block", tokens: a, limit: 700, have: 300, want: 700,
			blocks: "[256,512)[512,700)"},
		{name: "have at a boundary", tokens: a, limit: 700, have: 512, want: 700,
			blocks: "[512,700)"},
		{name: "have inside the tail", tokens: a, limit: 1200, have: 1030, want: 1200,
			blocks: "[1024,1200)"},
		{name: "have all", tokens: a, limit: 1200, have: 1200, want: 1200},
		{name: "have more than the limit", tokens: a, limit: 500, have: 1200, want: 500},
		{name: "have more than is stored", tokens: join(a, 300, numbers(9, 500)), limit: 800,
			have: 400, want: 400},
		{name: "have as much as is stored", tokens: join(a, 300, numbers(9, 500)), limit: 800,
			have: 300, want: 300},
		{name: "have one token less", tokens: join(a, 300, numbers(9, 500)), limit: 800, have: 299,
			want: 300, blocks: "[256,300)"},
		{name: "a hole", tokens: hole, limit: 1000, want: 256, blocks: "[0,256)"},
		{name: "have reaches past the hole", tokens: hole, limit: 1000, have: 512, want: 768,
			blocks: "[512,768)"},
		{name: "have ends in the hole", tokens: hole, limit: 1000, have: 500, want: 500},
		{name: "a tail alone", tokens: short, limit: 40, want: 40, blocks: "[0,40)"},

		{name: "state at the end", tokens: a, limit: 1200, recurrent: true, want: 1200,
			blocks: "[0,256)[256,512)[512,768)[768,1024)[1024,1200)"},
		{name: "state inside a tail", tokens: a, limit: 1199, recurrent: true, want: 1100,
			blocks: "[0,256)[256,512)[512,768)[768,1024)[1024,1100)"},
		{name: "state inside a block", tokens: a, limit: 1099, recurrent: true, want: 600,
			blocks: "[0,256)[256,512)[512,600)"},
		{name: "state at a boundary", tokens: a, limit: 599, recurrent: true, want: 256,
			blocks: "[0,256)"},
		{name: "state at a boundary that is the limit", tokens: a, limit: 256, recurrent: true,
			want: 256, blocks: "[0,256)"},
		{name: "state inside the first block", tokens: a, limit: 255, recurrent: true, want: 100,
			blocks: "[0,100)"},
		{name: "no state", tokens: a, limit: 99, recurrent: true, withoutState: true},
		{name: "state before the fork", tokens: join(b, 690, numbers(9, 50)), limit: 740,
			recurrent: true, want: 600, blocks: "[0,256)[256,512)[512,600)"},
		{name: "state of the fork", tokens: b, limit: 900, recurrent: true, want: 900,
			blocks: "[0,256)[256,512)[512,768)[768,900)"},
		{name: "state below have", tokens: a, limit: 1000, have: 700, recurrent: true, want: 600},
		{name: "state at have", tokens: a, limit: 1000, have: 600, recurrent: true, want: 600},
		{name: "state above have", tokens: a, limit: 1150, have: 1050, recurrent: true, want: 1100,
			blocks: "[1024,1100)"},
		{name: "state above have, in the next block", tokens: a, limit: 1150, have: 1000,
			recurrent: true, want: 1100, blocks: "[768,1024)[1024,1100)"},
		{name: "state after a hole", tokens: hole, limit: 1000, recurrent: true, want: 256,
			blocks: "[0,256)"},
		{name: "state in a hole that have covers", tokens: hole, limit: 1000, have: 301,
			recurrent: true, want: 300},
		{name: "state after a hole that have covers", tokens: hole, limit: 1000, have: 520,
			recurrent: true, want: 768, blocks: "[512,768)"},
		{name: "several states without a parent", tokens: short, limit: 19, recurrent: true,
			want: 10, blocks: "[0,10)"},
		{name: "deepest state without a parent", tokens: short, limit: 40, recurrent: true,
			want: 40, blocks: "[0,40)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := v.Find(c.tokens, c.limit, c.have, c.recurrent)
			if p.Tokens != c.want || ranges(p) != c.blocks ||
				(p.State != nil) != (c.recurrent && !c.withoutState) {
				t.Fatalf("found %d tokens, blocks %s, state %v; expected %d, %s", p.Tokens,
					ranges(p), p.State, c.want, c.blocks)
			}
			if err := load(v, c.tokens, p); err != nil {
				t.Error(err)
			}
		})
	}

	t.Run("another model", func(t *testing.T) {
		for _, m := range []Model{{Fingerprint: "fp", Format: "k8v8"},
			{Fingerprint: "fq", Format: "k8v4"}} {
			if p := s.Model(m).Find(a, 1200, 0, false); p.Tokens != 0 {
				t.Errorf("%+v found %+v", m, p)
			}
		}
	})
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestLoadSkips checks that Load skips nil pieces, and pieces beyond the last target.
func TestLoadSkips(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 256)
	save(t, v, sequence(tokens, false))
	got := make([]byte, 96)
	p := v.Find(tokens, 256, 0, false)
	err := readAndCount(context.Background(), v, p, func(Block) []Tensor {
		return []Tensor{{"0.v", [][]byte{nil, nil, got}}}
	}, nil)
	if want := kvPieces(tokens, 0, 256)[1].Pieces[2]; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, expected %v", got, err, want)
	}
}

// TestLoadRefusesOtherShapes checks that Load removes a file whose tensors do not fit the caller's
// targets.
func TestLoadRefusesOtherShapes(t *testing.T) {
	piece := func(n int) [][]byte { return [][]byte{make([]byte, n)} }
	for name, target := range map[string][]Tensor{
		"another name":    {{"9.k", piece(96)}},
		"longer pieces":   {{"0.k", piece(97)}},
		"too many pieces": {{"0.k", make([][]byte, 9)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), options(t))
			v := s.Model(testModel)
			tokens := numbers(1, 256)
			save(t, v, sequence(tokens, false))
			if err := readAndCount(context.Background(), v, v.Find(tokens, 256, 0, false),
				func(Block) []Tensor { return target }, nil); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, expected ErrDamaged", err)
			}
			if p := v.Find(tokens, 256, 0, false); p.Tokens != 0 || s.Stats().Damaged != 1 {
				t.Errorf("still found: %+v", p)
			}
		})
	}
}

func TestLoadCancelled(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(testModel)
	tokens := numbers(1, 600)
	save(t, v, sequence(tokens, true))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := v.Find(tokens, 600, 0, false)
	err := readAndCount(ctx, v, p, func(b Block) []Tensor { return nil }, nil)
	if !errors.Is(err, context.Canceled) || s.Stats().Damaged != 0 {
		t.Errorf("got %v, %+v", err, s.Stats())
	}
	if err := load(v, tokens, p); err != nil {
		t.Errorf("after a cancelled load: %v", err)
	}
}
