package blockstore

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	filedisk "headroom/app/disk"
)

// fillIndex creates a folder with n entries in chains of 70 blocks. Their files are empty.
func fillIndex(b *testing.B, dir string, n int) {
	b.Helper()
	s, err := Open(dir, options(b))
	if err != nil {
		b.Fatal(err)
	}
	s.swept.Wait()
	v := s.Model(testModel)
	err = s.change(func(tx *sql.Tx) error {
		model, err := modelID(tx, testModel)
		for rows := 0; rows < n && err == nil; {
			tokens := numbers(rows, 70*BlockTokens)
			chain := v.keys.chain(tokens)
			for i := 0; i < len(chain) && rows < n && err == nil; i++ {
				parent := v.indexParent(chain, i)
				slot, entry, slotErr := s.safe().newSlot(tx)
				if slotErr != nil {
					return slotErr
				}
				r := s.safe().row(slot, entry, chain[i], parent, &header{title: "title",
					tokens: tokens[i*BlockTokens : (i+1)*BlockTokens]})
				_, err = tx.Exec(insertEntry, chain[i][:], parent[:], model, kindBlock, statusReady,
					"", i*BlockTokens, BlockTokens, 800_000, rows,
					false, 0, 1.0, r.slot, r.title, r.tokens, r.codes)
				rows++
				path := entryPath(dir, chain[i])
				if err == nil {
					err = os.MkdirAll(filepath.Dir(path), 0o700)
				}
				if err == nil {
					err = os.WriteFile(path, nil, 0o600)
				}
			}
		}
		return err
	})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpen opens a folder of 25,000 entries. It excludes Close and the background sweep.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	fillIndex(b, dir, 25_000)
	for b.Loop() {
		s, err := Open(dir, options(b))
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		s.cancel() // ends the sweep
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkSweep compares 25,000 files with their rows, like the sweep after opening.
func BenchmarkSweep(b *testing.B) {
	dir := b.TempDir()
	fillIndex(b, dir, 25_000)
	s := open(b, dir, options(b))
	s.swept.Wait()
	for b.Loop() {
		if err := s.sweepEntries(s.index); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFind looks up 18,000 tokens, 70 blocks, among 25,000 entries.
func BenchmarkFind(b *testing.B) {
	dir := b.TempDir()
	fillIndex(b, dir, 25_000)
	tokens := numbers(0, 70*BlockTokens)
	s := open(b, dir, options(b))
	s.swept.Wait()
	v := s.Model(testModel)
	for _, recurrent := range []bool{false, true} { // no state is stored, so every depth is queried
		b.Run(fmt.Sprintf("recurrent=%v", recurrent), func(b *testing.B) {
			for b.Loop() {
				if p := v.Find(tokens, len(tokens), 0, recurrent); !recurrent &&
					p.Tokens != len(tokens) {
					b.Fatalf("found %d tokens", p.Tokens)
				}
			}
		})
	}
}

// large returns a sequence of 70 blocks of 800 KB: 20 tensors in 8 pieces of 5,000 bytes.
func large() Sequence {
	const tensors, pieces, bytes = 20, 8, 5000
	var kv []Tensor
	for i := range tensors {
		t := Tensor{Name: fmt.Sprintf("%d.kv", i)}
		for range pieces {
			t.Pieces = append(t.Pieces, make([]byte, bytes))
		}
		kv = append(kv, t)
	}
	return Sequence{Tokens: numbers(1, 70*BlockTokens),
		KV: func(from, to int) []Tensor { return kv }}
}

// BenchmarkLoad loads 70 blocks of 800 KB from the page cache.
func BenchmarkLoad(b *testing.B) {
	s := open(b, b.TempDir(), options(b))
	v := s.Model(testModel)
	q := large()
	saved := save(b, v, q)
	if saved.Err != nil {
		b.Fatal(saved.Err)
	}
	b.SetBytes(saved.Bytes)
	for b.Loop() {
		p := v.Find(q.Tokens, len(q.Tokens), 0, false)
		if err := readAndCount(context.Background(), v, p,
			func(block Block) []Tensor { return q.KV(block.From, block.To) }, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadCold loads the same blocks from the disk: each file is dropped from the page cache
// first.
func BenchmarkLoadCold(b *testing.B) {
	o := options(b)
	o.disk = osDisk{}
	s := open(b, b.TempDir(), o)
	v := s.Model(testModel)
	q := large()
	saved := save(b, v, q)
	if saved.Err != nil {
		b.Fatal(saved.Err)
	}
	b.SetBytes(saved.Bytes)
	for b.Loop() {
		b.StopTimer()
		for _, path := range entryFiles(b, s.dir) {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			filedisk.DropCache(f)
			f.Close()
		}
		b.StartTimer()
		p := v.Find(q.Tokens, len(q.Tokens), 0, false)
		if err := readAndCount(context.Background(), v, p,
			func(block Block) []Tensor { return q.KV(block.From, block.To) }, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSave writes and syncs 70 blocks of 800 KB.
func BenchmarkSave(b *testing.B) {
	o := options(b)
	o.disk = osDisk{}
	s := open(b, filepath.Join(b.TempDir(), "cache"), o)
	v := s.Model(testModel)
	q := large()
	i := int32(0)
	for b.Loop() {
		q.Tokens[0] = i // a new chain each time
		i++
		saved := save(b, v, q)
		if saved.Err != nil {
			b.Fatal(saved.Err)
		}
		b.SetBytes(saved.Bytes)
	}
}

// BenchmarkConversations lists 358 conversations with 25,000 entries.
func BenchmarkConversations(b *testing.B) {
	dir := b.TempDir()
	fillIndex(b, dir, 25_000)
	s := open(b, dir, options(b))
	s.swept.Wait()
	for b.Loop() {
		if list, err := s.Conversations(Filter{}); err != nil || len(list) != 358 {
			b.Fatalf("%d conversations, %v", len(list), err)
		}
	}
}
