package blockstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"headroom/engine/seal"
)

// killedDisk ends a deletion after a number of steps, as a kill does: nothing runs afterwards.
type killedDisk struct {
	osDisk
	left *int
}

var errKilled = errors.New("killed")

func (d killedDisk) step() {
	if *d.left == 0 {
		panic(errKilled)
	}
	*d.left--
}

func (d killedDisk) Remove(path string) error {
	d.step()
	return d.osDisk.Remove(path)
}

func (d killedDisk) Rename(from, to string) error {
	d.step()
	return d.osDisk.Rename(from, to)
}

// eraseKilled erases dir up to a step, and reports whether that was before the end.
func eraseKilled(t *testing.T, dir string, steps int) (killed bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			if killed = r == errKilled; !killed {
				panic(r)
			}
		}
	}()
	if err := erase(killedDisk{left: &steps}, dir); err != nil {
		t.Fatal(err)
	}
	return false
}

// TestEraseKilled kills a deletion at each step. The next one must remove everything that is left,
// but for the files of others, also if a program with a new key has tried to open the folder in
// between.
func TestEraseKilled(t *testing.T) {
	damages := map[string]func(dir string) error{
		"whole": func(string) error { return nil },
		"garbage in the index": func(dir string) error {
			path := filepath.Join(dir, indexName)
			index, err := os.ReadFile(path)
			copy(index, "garbage garbage garbage")
			return errors.Join(err, os.WriteFile(path, index, 0o600))
		},
		"no index": func(dir string) error { return os.Remove(filepath.Join(dir, indexName)) },
	}
	for name, damage := range damages {
		steps := 0
		for again := true; again; steps++ {
			for _, opened := range []bool{false, true} {
				for _, foreign := range []bool{false, true} {
					what := fmt.Sprintf("%s, step %d, opened %v, foreign %v", name, steps, opened,
						foreign)
					dir := filepath.Join(t.TempDir(), "cache")
					saveAndPin(t, dir, 1)
					if err := damage(dir); err != nil {
						t.Fatal(err)
					}
					if foreign {
						fill(t, dir, people)
					}
					again = eraseKilled(t, dir, steps)
					if opened {
						o, key := options(t), seal.NewKey() // the old one was destroyed
						if o.Key != nil {
							o.Key = &key
						}
						if s, err := Open(dir, o); err == nil {
							s.swept.Wait()
							s.Close()
						}
					}
					if err := Erase(dir); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					expectErased(t, what, dir, foreign)
				}
			}
			if t.Failed() {
				return
			}
		}
		if steps < 10 {
			t.Errorf("%s: %d steps, expected at least 10", name, steps)
		}
	}
}

// expectErased fails if dir has a file that is not in people. Empty folders may stay.
func expectErased(t *testing.T, what, dir string, foreign bool) {
	t.Helper()
	if foreign {
		expectFiles(t, dir, people)
	}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		if _, mine := people[rel]; err == nil && !e.IsDir() && (!mine || !foreign) {
			t.Errorf("%s: %s is left", what, rel)
		}
		return ignoreGone(err)
	})
	if ignoreGone(err) != nil {
		t.Error(err)
	}
}
