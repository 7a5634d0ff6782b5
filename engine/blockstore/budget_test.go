package blockstore

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// blockBytes returns the file size of a conversation's first block in these tests.
func blockBytes(t *testing.T) int64 {
	t.Helper()
	s := open(t, t.TempDir(), options(t))
	return save(t, s.Model(testModel), sequence(numbers(1, 256), false)).Bytes
}

// TestCap checks that the cap holds, and that eviction starts at the end of the least recently used
// chain.
func TestCap(t *testing.T) {
	size := blockBytes(t)
	o := options(t)
	o.MaxBytes = 5*size + size/2
	s := open(t, t.TempDir(), o)
	v := s.Model(testModel)
	a, b, c := numbers(1, 512), numbers(2, 512), numbers(3, 256)
	save(t, v, sequence(a, false))
	save(t, v, sequence(b, false))
	save(t, v, sequence(c, false)) // 5 blocks: full
	if err := load(v, a, v.Find(a, 512, 0, false)); err != nil {
		t.Fatal(err)
	}
	found := func(tokens []int32) int { return v.Find(tokens, len(tokens), 0, false).Tokens }
	for _, step := range []struct {
		seed                int
		wantA, wantB, wantC int
	}{{11, 512, 256, 256}, {12, 512, 0, 256}, {13, 512, 0, 0}, {14, 256, 0, 0}} {
		if saved := save(t, v, sequence(numbers(step.seed, 256), false)); saved.Blocks != 1 {
			t.Fatalf("saved %+v", saved)
		}
		if found(a) != step.wantA || found(b) != step.wantB || found(c) != step.wantC {
			t.Errorf("after %d: a %d, b %d, c %d, expected %+v", step.seed, found(a), found(b),
				found(c), step)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	// Saving a sequence that exceeds the cap keeps its first blocks. They are not evicted for its
	// last ones.
	long := numbers(20, 10*256)
	saved := save(t, v, sequence(long, true))
	if !errors.Is(saved.Err, ErrBudget) || saved.Blocks != 5 || found(long) != 5*256 {
		t.Errorf("saved %+v, found %d", saved, found(long))
	}
	if st := s.Stats(); st.Evicted != 9 || st.Skipped != 1 || st.SaveErrors != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestLoadingIsNotEvicted checks that an entry that is being loaded is not evicted, and neither are
// the entries before it.
func TestLoadingIsNotEvicted(t *testing.T) {
	o := options(t)
	o.MaxBytes = 4 * blockBytes(t)
	s := open(t, t.TempDir(), o)
	v := s.Model(testModel)
	a := numbers(1, 512)
	save(t, v, sequence(a, false))
	files := []reading{{entry: v.Find(a, 512, 0, false).Blocks[1].Entry}}
	for i, want := range []int{512, 0} {
		s.markLoading(files, []int{1, -1}[i])
		for seed := range 5 {
			save(t, v, sequence(numbers(want+10+seed, 256), false))
		}
		if got := v.Find(a, 512, 0, false).Tokens; got != want {
			t.Errorf("%d tokens are left, expected %d", got, want)
		}
	}
	if len(s.loading) != 0 {
		t.Errorf("%d entries are being loaded", len(s.loading))
	}
}

// TestLowerCap checks that opening a store evicts entries until they fit a lower cap, unless Visit
// is set.
func TestLowerCap(t *testing.T) {
	dir := t.TempDir()
	o := options(t)
	s := open(t, dir, o)
	bytes := save(t, s.Model(testModel), sequence(numbers(1, 2560), false)).Bytes
	s.Close()
	o.MaxBytes, o.Visit = bytes/2, true
	s = open(t, dir, o)
	s.swept.Wait()
	s.Close()
	o.Visit = false
	s = open(t, dir, o)
	s.swept.Wait()
	s.Close()
	s = open(t, dir, o)
	if st := s.Stats(); st.Bytes > bytes/2 || st.Entries != 4 && st.Entries != 5 ||
		st.Evicted != 10-st.Entries {
		t.Errorf("stats %+v", st)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestFreeDisk(t *testing.T) {
	size := blockBytes(t)
	d := &fakeDisk{free: 100*size + 2*size}
	o := options(t)
	o.disk, o.MinFreeBytes = d, 100*size
	s := open(t, t.TempDir(), o)
	v := s.Model(testModel)
	if saved := save(t, v, sequence(numbers(1, 512), false)); saved.Err != nil ||
		saved.Blocks != 2 {
		t.Fatalf("with room for two: %+v", saved)
	}
	// The disk is full, and eviction frees no space: after one round of eviction the save fails.
	d.free = 100 * size
	saved := save(t, v, sequence(numbers(2, 256), false))
	if !errors.Is(saved.Err, ErrBudget) || s.Stats().Evicted != 1 {
		t.Errorf("without room: %+v, %+v", saved, s.Stats())
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestFreeDiskCountsReservations checks that bytes reserved by another store count as used before
// they are on disk.
func TestFreeDiskCountsReservations(t *testing.T) {
	size := blockBytes(t)
	dir := t.TempDir()
	o := options(t)
	o.disk, o.MinFreeBytes = &fakeDisk{free: 100*size + size + size/2}, 100*size
	s, other := open(t, dir, o), open(t, dir, o)
	if saved := save(t, s.Model(testModel), sequence(numbers(1, 256), false)); saved.Err != nil {
		t.Fatal(saved.Err)
	}
	if _, err := s.index.db.Exec("UPDATE entries SET status = 0, owner = ?",
		other.owner); err != nil {
		t.Fatal(err)
	}
	if saved := save(t, s.Model(testModel), sequence(numbers(2, 256), false)); !errors.Is(saved.Err,
		ErrBudget) {
		t.Errorf("saved %+v", saved)
	}
	if _, err := s.index.db.Exec("UPDATE entries SET status = 1, owner = ''"); err != nil {
		t.Fatal(err)
	}
}

// TestCrashedReservations checks that a crashed process's reservations are released before anything
// is evicted.
func TestCrashedReservations(t *testing.T) {
	size := blockBytes(t)
	o := options(t)
	o.MaxBytes = 3*size + size/2
	s := open(t, t.TempDir(), o)
	v := s.Model(testModel)
	for seed := range 3 {
		save(t, v, sequence(numbers(seed, 256), false))
	}
	// The crashed process reserved the newest entry, which eviction would not choose.
	if _, err := s.index.db.Exec(
		"UPDATE entries SET status = 0, owner = '1-00000000000000aa' " +
			"WHERE used = (SELECT max(used) FROM " +
			"entries)"); err != nil {
		t.Fatal(err)
	}
	saved := save(t, v, sequence(numbers(9, 256), false))
	if st := s.Stats(); saved.Err != nil || st.Evicted != 0 || st.Entries != 3 {
		t.Errorf("saved %+v, %+v", saved, st)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestClearedWhileWritten checks that an entry that is removed during its write leaves no file.
func TestClearedWhileWritten(t *testing.T) {
	dir := t.TempDir()
	d := &fakeDisk{}
	o := options(t)
	o.disk = d
	s, other := open(t, dir, o), open(t, dir, options(t))
	d.onSync = func() {
		if _, err := other.Clear(); err != nil {
			t.Error(err)
		}
	}
	saved := save(t, s.Model(testModel), sequence(numbers(1, 600), true))
	if saved.Err == nil || saved.Blocks != 0 || len(entryFiles(t, dir)) != 0 {
		t.Errorf("saved %+v, left %v", saved, entryFiles(t, dir))
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestDailyBudget(t *testing.T) {
	size := blockBytes(t)
	clock := newClock()
	o := options(t)
	o.now, o.DailyWriteBytes = clock.Now, 10*size
	dir := t.TempDir()
	s := open(t, dir, o)
	v := s.Model(testModel)
	seed := 100
	// write saves n new blocks and returns the number of blocks written.
	write := func(n int, reused bool) (written int) {
		t.Helper()
		for range n {
			seed++
			q := sequence(numbers(seed, 256), false)
			q.Reused = reused
			saved := save(t, v, q)
			if saved.Blocks == 0 && !errors.Is(saved.Err, ErrBudget) {
				t.Fatalf("saved %+v", saved)
			}
			written += saved.Blocks
		}
		return written
	}
	reopen := func() {
		s.Close()
		s = open(t, dir, o)
		v = s.Model(testModel)
	}
	for _, step := range []struct {
		name   string
		days   int
		tries  int
		reused bool
		want   int
	}{
		{"new sequences may use the first quarter", 0, 8, false, 2},
		{"reused sequences may use the rest", 0, 3, true, 3},
		{"new sequences may not use the rest", 0, 2, false, 0},
		{"reused sequences may use all of it", 0, 8, true, 5},
		{"one day back is still the same day", -1, 1, true, 0},
		{"two days back is still the same day", -1, 1, true, 0},
		{"forward again is still the same day", 2, 1, true, 0},
		{"the next day is a new day", 1, 12, true, 10},
		{"years ahead is a new day", 4000, 3, true, 3},
		{"years back is the earlier day, and written bytes still count", -4000, 9, true, 7},
		{"the day after that is a new day", 1, 12, true, 10},
	} {
		clock.add(step.days)
		reopen()
		if got := write(step.tries, step.reused); got != step.want {
			t.Errorf("%s: wrote %d of %d, expected %d", step.name, got, step.tries, step.want)
		}
	}
	if st := s.Stats(); st.TodayBytes != 10*size || st.WrittenBytes != 40*size {
		t.Errorf("wrote %d bytes today and %d in total, expected %d and %d", st.TodayBytes,
			st.WrittenBytes, 10*size, 40*size)
	}
	clock.add(1)
	if st := s.Stats(); st.TodayBytes != 0 {
		t.Errorf("%d bytes count as written on a new day", st.TodayBytes)
	}
}

// TestWriteErrors makes each operation of a write fail. The entry must be missing, the error
// counted, no file left behind, and the next save must succeed.
func TestWriteErrors(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "rename"} {
		t.Run(op, func(t *testing.T) {
			d := &fakeDisk{}
			o := options(t)
			o.disk = d
			s := open(t, t.TempDir(), o)
			v := s.Model(testModel)
			tokens := numbers(1, 700)
			d.set(op, syscall.ENOSPC)
			saved := save(t, v, sequence(tokens, true, 700))
			if !errors.Is(saved.Err, syscall.ENOSPC) || saved.Blocks+saved.States != 0 {
				t.Errorf("saved %+v", saved)
			}
			if st := s.Stats(); st.SaveErrors != 1 ||
				!strings.Contains(st.LastSaveError, "no space") || st.Bytes != 0 {
				t.Errorf("stats %+v", st)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
			d.set(op, nil)
			if saved := save(t, v, sequence(tokens, true, 700)); saved.Err != nil ||
				saved.Blocks != 3 || saved.States != 1 {
				t.Errorf("after the error: saved %+v", saved)
			}
			if err := load(v, tokens, v.Find(tokens, 700, 0, true)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailedWritesAreRefunded checks that only bytes that reached the disk count as written.
func TestFailedWritesAreRefunded(t *testing.T) {
	d := &fakeDisk{}
	o := options(t)
	o.disk = d
	s := open(t, t.TempDir(), o)
	d.set("create", syscall.EACCES)
	save(t, s.Model(testModel), sequence(numbers(1, 256), false))
	if st := s.Stats(); st.TodayBytes != 0 || st.WrittenBytes != 0 {
		t.Errorf("nothing was written, but %d bytes count today and %d in total", st.TodayBytes,
			st.WrittenBytes)
	}
	d.set("create", nil)
	d.set("write", syscall.ENOSPC)
	save(t, s.Model(testModel), sequence(numbers(1, 256), false))
	if st := s.Stats(); st.TodayBytes == 0 || st.TodayBytes > 2000 {
		t.Errorf("a half-written file counts as %d bytes", st.TodayBytes)
	}
}
