package blockstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// tree returns n conversations. Number i forks from number i/2 at a random place.
func tree(n int, random *rand.Rand) [][]int32 {
	all := [][]int32{numbers(0, 900)}
	for i := 1; i < n; i++ {
		from := all[i/2]
		cut := random.IntN(len(from))
		all = append(all, join(from, cut, numbers(i, 200+random.IntN(700))))
	}
	return all
}

// player performs random operations on a store, and compares every byte that it loads.
type player struct {
	t      *testing.T
	random *rand.Rand
	all    [][]int32
	s      *Store
	v      *View
	o      Options
	dir    string
	last   string // description of the last operation
}

func (p *player) open() {
	s, err := Open(p.dir, p.o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.s, p.v = s, s.Model(testModel)
}

func (p *player) close() {
	if err := p.s.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// step performs one random operation. If dangerous is true, it may also remove files that other
// stores are using.
func (p *player) step(dangerous bool) {
	tokens := p.all[p.random.IntN(len(p.all))]
	n := 1 + p.random.IntN(len(tokens))
	kinds := 20
	if dangerous {
		kinds = 26
	}
	switch op := p.random.IntN(kinds); {
	case op < 8:
		q := sequence(tokens[:n], p.random.IntN(4) > 0)
		for at := 1 + p.random.IntN(300); at <= n; at += 1 + p.random.IntN(300) {
			q.States = append(q.States, stateAt(tokens, at))
		}
		saved := save(p.t, p.v, q)
		p.did("saved %d tokens: %+v", n, saved)
		if saved.Err != nil && !errors.Is(saved.Err, ErrBudget) {
			p.t.Fatal(saved.Err)
		}
	case op < 16:
		have, recurrent := 0, p.random.IntN(2) == 0
		if p.random.IntN(3) == 0 {
			have = p.random.IntN(n)
		}
		prefix := p.v.Find(tokens, n, have, recurrent)
		err := load(p.v, tokens, prefix)
		p.did("loaded %d of %d tokens: %v", prefix.Tokens, n, err)
		if err != nil && !errors.Is(err, ErrDamaged) {
			p.t.Fatal(err)
		}
	case op < 18:
		list, err := p.s.Conversations(Filter{})
		if err != nil {
			p.t.Fatal(err)
		}
		if len(list) == 0 {
			return
		}
		c := list[p.random.IntN(len(list))]
		if op == 16 {
			err = p.s.Pin(c.Key.String(), p.random.IntN(3) == 0)
		} else {
			_, err = p.s.Remove(c.Key.String())
		}
		p.did("pinned or removed %s: %v", c.Key, err)
		if err != nil && !errors.Is(err, ErrNotFound) {
			p.t.Fatal(err)
		}
	case op < 20:
		p.close()
		p.open()
		p.did("opened again")
	default:
		p.harm(op)
	}
}

// harm damages an entry's file and reads it, or removes the index.
func (p *player) harm(op int) {
	files := entryFiles(p.t, p.dir)
	if op == 25 {
		p.close()
		if err := os.Remove(filepath.Join(p.dir, indexName)); err != nil {
			p.t.Fatal(err)
		}
		p.open()
		p.did("lost the index")
		return
	}
	if len(files) == 0 {
		return
	}
	path := files[p.random.IntN(len(files))]
	k, err := parseKey(filepath.Base(path)[:64])
	if err != nil {
		p.t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		p.t.Fatal(err)
	}
	switch op {
	case 24:
		err = os.Remove(path)
	case 23:
		err = os.Truncate(path, p.random.Int64N(info.Size()))
	default:
		edit(p.t, path, func(b []byte) []byte {
			b[p.random.IntN(len(b))] ^= 1 << p.random.IntN(8)
			return b
		})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	err = p.s.readEntry(p.t.Context(), reading{entry: Entry{Key: k, Bytes: info.Size()}})
	p.did("damaged %s: %v", k, err)
	if !errors.Is(err, ErrDamaged) {
		p.t.Fatalf("a damaged file was read: %v", err)
	}
}

func (p *player) did(format string, args ...any) { p.last = fmt.Sprintf(format, args...) }

func smallCap(t testing.TB) Options {
	o := options(t)
	o.MaxBytes = 60_000 // about 30 entries
	return o
}

// TestScenario performs random operations on one folder through two stores, one at a time,
// including damage. After every step, index and folder must agree.
func TestScenario(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			dir, all := t.TempDir(), tree(12, random)
			players := []*player{{t: t, random: random, all: all, o: smallCap(t), dir: dir},
				{t: t, random: random, all: all, o: smallCap(t), dir: dir}}
			for _, p := range players {
				p.open()
				defer func() { p.close() }()
			}
			for i := range 80 {
				p := players[random.IntN(2)]
				p.step(true)
				if err := p.s.Check(); err != nil {
					t.Fatalf("step %d, %s: %v", i, p.last, err)
				}
			}
		})
	}
}

// TestTwoStores uses one folder from two stores concurrently.
func TestTwoStores(t *testing.T) {
	dir, all := t.TempDir(), tree(12, rand.New(rand.NewPCG(7, 7)))
	var wait sync.WaitGroup
	for seed := range uint64(2) {
		wait.Go(func() {
			p := &player{t: t, random: rand.New(rand.NewPCG(seed, 3)), all: all, o: smallCap(t),
				dir: dir}
			p.open()
			defer p.close()
			for range 120 {
				p.step(false)
				if t.Failed() {
					return
				}
			}
		})
	}
	wait.Wait()
	s := open(t, dir, smallCap(t))
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
