package library

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRandomSequences: after random creations, renames, removals and links, the list equals the
// list of a fresh scan, and again after every file has changed. Only if a folder outside the roots
// was renamed, the list may need a poll; see TestParentsThatMove.
func TestRandomSequences(t *testing.T) {
	sequences := 60
	if os.Getenv("HEADROOM_LONG") != "" {
		sequences = 1000
	}
	ready := 0
	for seed := range sequences {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			top := t.TempDir()
			s := &sequence{random: rand.New(rand.NewPCG(uint64(seed), 5)), top: top}
			s.roots = []string{filepath.Join(top, "r1"), filepath.Join(top, "r2"),
				filepath.Join(top, "later/r3")}
			w := watch(t, s.roots, nil)
			for range 30 {
				s.step()
				if s.random.IntN(8) == 0 {
					w.settle()
				}
			}
			w.settle()
			if s.unseen {
				w.tick()
			}
			log := strings.ReplaceAll(strings.Join(s.log, "\n"), top, "")
			w.expectBudget()
			w.expectFresh(log)
			ready += len(w.Models()) - 1
			s.grow()
			w.settle()
			w.expectBudget()
			w.expectFresh(log + "\na change of every file")
		})
	}
	if ready < sequences {
		t.Errorf("%d models after %d sequences: the sequences create too few", ready, sequences)
	}
}

// sequence is a sequence of random operations.
type sequence struct {
	random *rand.Rand
	top    string
	roots  []string
	log    []string
	unseen bool // a folder outside the roots was renamed, which may cause no event
}

func (s *sequence) pick(list ...string) string { return list[s.random.IntN(len(list))] }

// path returns a random path, which may exist or not.
func (s *sequence) path() string {
	p := s.pick(s.roots[0], s.roots[0], s.roots[1], s.roots[2], filepath.Join(s.top, "outside"))
	for range s.random.IntN(4) {
		p = filepath.Join(p, s.pick("a", "b", "models--o--m", "snapshots", "blobs", "refs", "c0",
			"manifests", ".cache/huggingface/download"))
	}
	return p
}

func (s *sequence) filePath() string {
	return filepath.Join(s.path(),
		s.pick("config.json", "config.json", "model.safetensors",
			"model-00001-of-00002.safetensors", indexName,
			"x.incomplete", "model.safetensors.part", "m.gguf", "main", "note.txt", "latest"))
}

// existing returns a random path that exists, maybe a root.
func (s *sequence) existing() string {
	var all []string
	_ = filepath.WalkDir(s.top, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != s.top {
			all = append(all, path)
		}
		return nil
	})
	if len(all) == 0 {
		return s.path()
	}
	return s.pick(all...)
}

func (s *sequence) step() {
	do := func(what string, err error) { s.log = append(s.log, fmt.Sprint(what, " ", err)) }
	switch s.random.IntN(9) {
	case 0, 1, 2, 3:
		to, text := s.filePath(),
			s.pick("1", "22", "broken", "c0",
				`{"weight_map":{"a":"model-00001-of-00002.safetensors"}}`,
				`{"layers":[{"digest":"sha256:1","size":3}]}`)
		_ = os.MkdirAll(filepath.Dir(to), 0o755)
		do("write "+to+" "+text, os.WriteFile(to, []byte(text), 0o644))
	case 4:
		to := s.path()
		do("mkdir "+to, os.MkdirAll(to, 0o755))
	case 5:
		gone := s.existing()
		do("remove "+gone, os.RemoveAll(gone))
	case 6, 7:
		from, to := s.existing(), s.path()
		_ = os.MkdirAll(filepath.Dir(to), 0o755)
		s.unseen = s.unseen || !s.inRoot(from)
		do("rename "+from+" to "+to, os.Rename(from, to))
	case 8:
		link, target := s.pick(s.path(), s.filePath()), s.pick(s.path(), s.existing())
		if s.random.IntN(2) == 0 {
			target, _ = filepath.Rel(filepath.Dir(link), target)
		}
		_ = os.MkdirAll(filepath.Dir(link), 0o755)
		do("link "+link+" to "+target, os.Symlink(target, link))
	}
}

// inRoot reports whether path is a root or inside one.
func (s *sequence) inRoot(path string) bool {
	return slices.ContainsFunc(s.roots, func(root string) bool {
		return strings.HasPrefix(path+string(filepath.Separator), root+string(filepath.Separator))
	})
}

// grow appends to every file.
func (s *sequence) grow() {
	_ = filepath.WalkDir(s.top, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			err = os.WriteFile(path, append(text, '+'), 0o644)
		}
		return err
	})
}
