package blockstore

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// saveAndPin saves conversations in the folder, pins one of them, and closes the store.
func saveAndPin(t testing.TB, dir string, seeds ...int) {
	t.Helper()
	s := open(t, dir, options(t))
	for _, seed := range seeds {
		tokens := conversation(seed)
		save(t, s.Model(testModel), sequence(tokens, true, 256, 300, len(tokens)))
	}
	list, err := s.Conversations(Filter{})
	if err == nil {
		err = s.Pin(list[0].Key.String(), true)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// expectStored opens the folder and expects it to have all these conversations, one of them pinned.
func expectStored(t testing.TB, dir string, seeds ...int) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, indexName)); err != nil {
		t.Fatalf("the folder has no index: %v", err)
	}
	s := open(t, dir, options(t))
	defer s.Close()
	s.swept.Wait()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	v := s.Model(testModel)
	for _, seed := range seeds {
		tokens := conversation(seed)
		p := v.Find(tokens, len(tokens), 0, true)
		if err := load(v, tokens, p); err != nil || p.Tokens != len(tokens) {
			t.Fatalf("conversation %d: %d of %d tokens are found, %v", seed, p.Tokens, len(tokens),
				err)
		}
	}
	list, err := s.Conversations(Filter{})
	pinned := 0
	for _, c := range list {
		if c.Pinned {
			pinned++
		}
	}
	if err != nil || pinned != 1 {
		t.Fatalf("%d conversations are pinned, want 1; %v", pinned, err)
	}
}

func expectGone(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

// TestMove checks that a move transfers every entry and removes the old folder.
func TestMove(t *testing.T) {
	for _, copies := range []bool{false, true} {
		dir := t.TempDir()
		m := &Move{From: filepath.Join(dir, "old"), To: filepath.Join(dir, "a", "new"),
			AlwaysCopy: copies}
		saveAndPin(t, m.From, 1, 2)
		moved := int64(0)
		m.Moved = func(n int64) { moved += n }
		s := open(t, m.From, options(t))
		if err := m.Copy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if total, err := m.Bytes(); err != nil || moved != total || total == 0 {
			t.Errorf("%d of %d bytes were reported, %v", moved, total, err)
		}
		if err := m.Settle(t.Context()); !errors.Is(err, ErrInUse) {
			t.Errorf("with the store open: %v, want %v", err, ErrInUse)
		}
		// Entries that are added or removed after Copy are added or removed in the new folder too.
		tokens := conversation(3)
		save(t, s.Model(testModel), sequence(tokens, true, 256, 300, len(tokens)))
		gone := sequence(numbers(7, 300), true)
		gone.Title = "gone"
		save(t, s.Model(testModel), gone)
		if err := m.Copy(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := s.Conversations(Filter{})
		for _, c := range list {
			if c.Title == gone.Title {
				_, err = s.Remove(c.Key.String())
			}
		}
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if err := m.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		old, _ := filesOf(m.From, true)
		if now, err := filesOf(m.To, true); err != nil || !slices.Equal(now, old) {
			t.Errorf("the new folder has %d entries, the old one %d; %v", len(now), len(old), err)
		}
		if err := FinishMove(m.To); err != nil {
			t.Fatal(err)
		}
		expectStored(t, m.To, 1, 2, 3)
		expectGone(t, m.From)
		expectGone(t, filepath.Join(m.To, markName))
	}
}

// TestMoveRefuses checks that a move that is not possible is refused before anything is written.
func TestMoveRefuses(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "old")
	saveAndPin(t, from, 1)
	other := filepath.Join(dir, "other")
	saveAndPin(t, other, 2)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(from, link); err != nil {
		t.Fatal(err)
	}
	others := filepath.Join(dir, "others")
	if err := os.MkdirAll(filepath.Join(others, "pins"), 0o755); err != nil {
		t.Fatal(err)
	}
	full := &fakeDisk{free: 5000}
	for name, c := range map[string]struct {
		m    Move
		want error
	}{
		"itself":           {Move{To: from}, ErrNested},
		"itself by a link": {Move{To: link}, ErrNested},
		"inside":           {Move{To: filepath.Join(from, "new")}, ErrNested},
		"around":           {Move{To: dir}, ErrNested},
		"another store":    {Move{To: other}, ErrOccupied},
		"a person's":       {Move{To: others}, ErrNotEmpty},
		"a full disk": {Move{To: filepath.Join(dir, "new"), AlwaysCopy: true, disk: full},
			&NoRoom{}},
		"a disk with reserve": {Move{To: filepath.Join(dir, "new"), AlwaysCopy: true,
			MinFreeBytes: 1 << 60}, &NoRoom{}},
	} {
		c.m.From = from
		room := (*NoRoom)(nil)
		if err := c.m.Copy(t.Context()); !errors.Is(err, c.want) &&
			!(errors.As(err, &room) && errors.As(c.want, &room)) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	expectGone(t, filepath.Join(dir, "new"))
	expectGone(t, filepath.Join(other, markName))
	// Within one disk nothing is copied, so a full disk does not matter.
	m := Move{From: from, To: filepath.Join(dir, "new"), disk: full}
	if err := m.Copy(t.Context()); err != nil {
		t.Error(err)
	}
	expectStored(t, other, 2)
	expectStored(t, from, 1)
}

// TestMoveStops checks that a move that is stopped or fails leaves the old folder unchanged, can be
// continued, and can be discarded.
func TestMoveStops(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	saveAndPin(t, from, 1, 2)
	for round, discard := range []bool{true, false} {
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		m := &Move{From: from, To: to, AlwaysCopy: true, Moved: func(int64) {
			if n++; n == 2 {
				stop()
			}
		}}
		if err := m.Copy(ctx); !errors.Is(err, context.Canceled) || n != 2 {
			t.Fatalf("round %d: stopped after %d entries: %v", round, n, err)
		}
		failing := &fakeDisk{}
		failing.set("write", syscall.ENOSPC)
		if err := (&Move{From: from, To: to, AlwaysCopy: true, disk: failing}).Copy(
			t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a full disk: %v", err)
		}
		if files, err := filesOf(to, true); err != nil || len(files) != 2 {
			t.Errorf("%d entries are in the new folder, want 2; %v", len(files), err)
		}
		expectStored(t, from, 1, 2)
		if err := m.Clear(); err == nil {
			t.Fatal("a folder was emptied before the other one was whole")
		}
		if discard {
			if err := DiscardMove(to); err != nil {
				t.Fatal(err)
			}
			expectGone(t, to)
		}
	}
	// If the settings name an unfinished copy, the old folder keeps all entries.
	part := filepath.Join(dir, "part")
	ctx, stop := context.WithCancel(t.Context())
	if err := (&Move{From: from, To: part, Moved: func(int64) { stop() }}).Copy(ctx); !errors.Is(
		err, context.Canceled) {
		t.Fatal(err)
	}
	if err := FinishMove(part); err != nil {
		t.Error(err)
	}
	expectGone(t, filepath.Join(part, markName))
	expectStored(t, from, 1, 2)
	found := 0
	m := &Move{From: from, To: to, AlwaysCopy: true, Found: func(int64) { found++ }}
	if err := errors.Join(m.Settle(t.Context()), m.Clear()); err != nil || found != 2 {
		t.Fatalf("%d entries were found in place, want 2; %v", found, err)
	}
	expectStored(t, to, 1, 2)
	expectGone(t, from)
}

// TestMoveUsedSince checks that an old folder that was used after Settle keeps the entries that the
// new one lacks.
func TestMoveUsedSince(t *testing.T) {
	dir := t.TempDir()
	m := &Move{From: filepath.Join(dir, "old"), To: filepath.Join(dir, "new")}
	saveAndPin(t, m.From, 1)
	if err := m.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := open(t, m.From, options(t))
	only := numbers(9, 300)
	save(t, s.Model(testModel), sequence(only, true, len(only)))
	if err := errors.Join(s.Close(), m.Clear()); err != nil {
		t.Fatal(err)
	}
	s = open(t, m.From, options(t))
	s.swept.Wait()
	if p := s.Model(testModel).Find(only, len(only), 0, true); p.Tokens != len(only) {
		t.Errorf("the old folder has %d tokens of its new entries, want %d", p.Tokens, len(only))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	expectStored(t, m.To, 1)
}

// moveSteps is the environment variable with the number of the disk operation at which the child
// kills itself; 0: never.
const moveSteps = "HEADROOM_BLOCKSTORE_MOVE_STEPS"

// dyingDisk kills its own process with SIGKILL before a chosen operation.
type dyingDisk struct {
	osDisk
	left *int // operations before the kill; negative: never
	done *int // operations so far
}

type dyingFile struct {
	writeFile
	d dyingDisk
}

func (d dyingDisk) step() {
	if *d.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	*d.left--
	*d.done++
}

func (d dyingDisk) Create(path string) (writeFile, error) {
	d.step()
	f, err := d.osDisk.Create(path)
	return dyingFile{f, d}, err
}

func (d dyingDisk) Rename(from, to string) error {
	d.step()
	return d.osDisk.Rename(from, to)
}

func (d dyingDisk) Remove(path string) error {
	d.step()
	return d.osDisk.Remove(path)
}

func (f dyingFile) Write(p []byte) (int, error) {
	n, err := f.writeFile.Write(p[:len(p)/2])
	f.d.step()
	if err == nil {
		var more int
		more, err = f.writeFile.Write(p[len(p)/2:])
		n += more
	}
	return n, err
}

// TestMoveChild is the child process of TestMoveKilled. The file "current" takes the place of the
// settings: it names the folder in use.
func TestMoveChild(t *testing.T) {
	dir := os.Getenv(killDir)
	steps, err := strconv.Atoi(os.Getenv(moveSteps))
	if err != nil {
		t.Skip("the child of TestMoveKilled")
	}
	left, done := steps-1, 0
	m := &Move{From: filepath.Join(dir, "old"), To: filepath.Join(dir, "new"), AlwaysCopy: true,
		disk: dyingDisk{left: &left, done: &done}}
	if err := errors.Join(m.Copy(t.Context()), m.Settle(t.Context())); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(dir, "part")
	if err := errors.Join(os.WriteFile(part, []byte("new"), 0o600),
		os.Rename(part, filepath.Join(dir, "current"))); err != nil {
		t.Fatal(err)
	}
	if err := m.Clear(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "steps"), []byte(strconv.Itoa(done)),
		0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMoveKilled kills a move at different stages. Each time the folder in use must be complete,
// and the next start must end with one folder that has everything.
func TestMoveKilled(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	committed := 0
	steps := 0 // of a complete move
	for round := range rounds + 1 {
		dir := t.TempDir()
		saveAndPin(t, filepath.Join(dir, "old"), 1, 2)
		at := (2*round - 1) * steps / (2 * rounds) // spread over all steps
		child := exec.Command(os.Args[0], "-test.run=^TestMoveChild$")
		child.Env = append(os.Environ(), killDir+"="+dir, moveSteps+"="+strconv.Itoa(at))
		out, err := child.CombinedOutput()
		if round == 0 {
			b, stepsErr := os.ReadFile(filepath.Join(dir, "steps"))
			if steps, _ = strconv.Atoi(string(b)); err != nil || stepsErr != nil ||
				steps < 2*rounds {
				t.Fatalf("the child ended with %v after %d steps: %s", err, steps, out)
			}
		} else if err == nil || !child.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("the child was not killed at step %d of %d: %v, %s", at, steps, err, out)
		}
		current := "old"
		if b, err := os.ReadFile(filepath.Join(dir, "current")); err == nil {
			current = string(b)
			committed++
		}
		// The next start of the program.
		if err := FinishMove(filepath.Join(dir, current)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		expectStored(t, filepath.Join(dir, current), 1, 2)
		m := &Move{From: filepath.Join(dir, "old"), To: filepath.Join(dir, "new"), AlwaysCopy: true}
		if current == "old" {
			if err := errors.Join(m.Copy(t.Context()), m.Settle(t.Context()),
				m.Clear()); err != nil {
				t.Fatalf("round %d, continuing the move: %v", round, err)
			}
			expectStored(t, m.To, 1, 2)
		}
		expectGone(t, m.From)
		if parts, _ := filepath.Glob(filepath.Join(m.To, "*"+copySuffix)); len(parts) > 0 {
			t.Errorf("round %d: %s are left", round, parts)
		}
		if files, err := filesOf(m.To, true); err != nil ||
			slices.ContainsFunc(files,
				func(f entryFile) bool { return strings.HasSuffix(f.rel, copySuffix) }) {
			t.Errorf("round %d: unfinished copies are left, %v", round, err)
		}
	}
	if committed == 0 || committed == rounds+1 {
		t.Errorf("%d of %d rounds switched to the new folder, expected some of each kind",
			committed, rounds+1)
	}
}
