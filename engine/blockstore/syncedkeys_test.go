package blockstore

import (
	"testing"

	"headroom/engine/seal"
)

// watchedKeys counts the slots that were written since the last sync.
type watchedKeys struct {
	seal.SlotFile
	d *watchedDisk
}

type watchedDisk struct {
	fakeDisk
	before  func() // called before the next write of a slot
	written int
}

func (d *watchedDisk) OpenKeys(path string) (seal.SlotFile, error) {
	f, err := d.fakeDisk.OpenKeys(path)
	return watchedKeys{f, d}, err
}

func (k watchedKeys) WriteAt(p []byte, at int64) (int, error) {
	if f := k.d.before; f != nil {
		k.d.before = nil
		f()
	}
	k.d.written++
	return k.SlotFile.WriteAt(p, at)
}

func (k watchedKeys) Sync() error {
	k.d.written = 0
	return k.SlotFile.Sync()
}

// TestRemovedKeysAreSynced: when Remove returns, the destroyed keys are on disk, also if the
// writer's sync comes just before they are overwritten.
func TestRemovedKeysAreSynced(t *testing.T) {
	needKey(t)
	d := &watchedDisk{}
	o := options(t)
	o.disk = d
	s := open(t, t.TempDir(), o)
	save(t, s.Model(testModel), sequence(numbers(1, 200), true))
	list, err := s.Conversations(Filter{})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := s.syncKeys(); err != nil {
		t.Fatal(err)
	}
	d.before = func() {
		if err := s.syncKeys(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Remove(list[0].Key.String()); err != nil || d.before != nil {
		t.Fatalf("%v, a slot was overwritten: %t", err, d.before == nil)
	}
	if d.written != 0 {
		t.Errorf("%d overwritten slots are not synced", d.written)
	}
}

// TestSyncedKeysRest: after a sync nothing is left to be synced, encrypted or not. Otherwise the
// writer would wake every two seconds.
func TestSyncedKeysRest(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	save(t, s.Model(testModel), sequence(numbers(1, 600), true))
	if err := s.syncKeys(); err != nil {
		t.Fatal(err)
	}
	if s.keysDirty.Load() {
		t.Error("slots are still to be synced")
	}
}
