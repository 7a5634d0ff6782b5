package blockstore

import (
	"errors"
	"testing"
	"time"
)

// TestSetLimits changes the limits of an open store. A lower cap evicts unpinned entries
// immediately. The other limits apply from the next save on.
func TestSetLimits(t *testing.T) {
	size := blockBytes(t)
	o := options(t)
	d := &fakeDisk{free: 100 * size}
	o.disk = d
	s := open(t, t.TempDir(), o)
	settle(t, s)
	v := s.Model(testModel)
	pinned := numbers(1, 256)
	save(t, v, sequence(pinned, false))
	list, err := s.Conversations(Filter{})
	if err == nil {
		err = s.Pin(list[0].Key.String(), true)
	}
	if err != nil {
		t.Fatal(err)
	}
	for seed := range 5 {
		save(t, v, sequence(numbers(10+seed, 256), false))
	}
	set := func(l Limits) {
		t.Helper()
		if err := s.SetLimits(l); err != nil {
			t.Fatal(err)
		}
	}
	set(Limits{3 * size, -1, -1, false})
	if got, want := s.Limits(), (Limits{3 * size, -1, -1, false}); got != want {
		t.Errorf("the limits are %+v, expected %+v", got, want)
	}
	if st := s.Stats(); st.Entries != 3 || st.Evicted != 3 || st.MaxBytes != 3*size ||
		v.Find(pinned, 256, 0, false).Tokens != 256 {
		t.Errorf("with a cap of 3 blocks: %+v, pinned %+v", st, v.Find(pinned, 256, 0, false))
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for _, l := range []Limits{
		{MaxBytes: 3 * size, MinFreeBytes: -1, DailyWriteBytes: 6 * size},
		{MaxBytes: 3 * size, MinFreeBytes: 100*size + 1, DailyWriteBytes: -1},
		{MaxBytes: -1, MinFreeBytes: -1, DailyWriteBytes: -1, Sparing: true},
	} {
		set(l)
		if saved := save(t, v, sequence(numbers(20, 256), false)); !errors.Is(saved.Err,
			ErrBudget) {
			t.Errorf("with a limit of %+v: saved %+v", l, saved)
		}
	}
	again := sequence(numbers(20, 256), false)
	again.Reused = true
	if saved := save(t, v, again); saved.Blocks != 1 { // Sparing still applies
		t.Errorf("a reused sequence: saved %+v", saved)
	}
	set(Limits{-1, -1, -1, false})
	save(t, v, sequence(numbers(21, 4*256), false))
	if st := s.Stats(); st.Entries < 5 || st.MaxBytes != -1 {
		t.Errorf("without limits: %+v", st)
	}
	set(Limits{})
	if st := s.Stats(); st.MaxBytes != 20e9 || st.MinFreeBytes != 10e9 ||
		st.DailyWriteBytes != 40e9 {
		t.Errorf("defaults: %+v", st)
	}
}

// TestWrittenSince checks that WrittenSince is the creation time of the index, even for a store
// that opens it later.
func TestWrittenSince(t *testing.T) {
	dir := t.TempDir()
	before := time.Now().Truncate(time.Second)
	s := open(t, dir, options(t))
	since := s.Stats().WrittenSince
	if since.Before(before) || since.After(time.Now()) {
		t.Errorf("since %v, expected a time between %v and now", since, before)
	}
	s.Close()
	if again := open(t, dir, options(t)).Stats().WrittenSince; !again.Equal(since) {
		t.Errorf("after reopening: since %v, expected %v", again, since)
	}
	s = open(t, t.TempDir(), options(t))
	if _, err := s.index.db.Exec("DELETE FROM counts"); err != nil {
		t.Fatal(err)
	}
	if since := s.Stats().WrittenSince; !since.IsZero() {
		t.Errorf("without the counter: since %v", since)
	}
}
