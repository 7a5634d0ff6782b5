package library

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"headroom/engine"
)

// watching is a Watcher of real files whose timers never fire: the test triggers every scan.
type watching struct {
	*Watcher
	t       *testing.T
	library *Library
	fake    *fakeDescribe
	// markerDir is watched too. The kernel reports a new file in it after all earlier events.
	markerDir  string
	markerSeen chan struct{}
	markers    int
	changes    []string
}

// watch starts to watch the roots. Its events come from fsnotify.
func watch(t *testing.T, roots []string, change func(*WatchOptions)) *watching {
	t.Helper()
	w := &watching{t: t, markerDir: t.TempDir(), markerSeen: make(chan struct{}),
		fake: new(fakeDescribe)}
	w.library = New(roots, engine.Options{}, w.fake.describe)
	o := WatchOptions{Quiet: time.Hour, Latest: time.Hour, Poll: time.Hour, Safety: time.Hour,
		Log: slog.New(slog.DiscardHandler), events: w.events}
	if change != nil {
		change(&o)
	}
	w.Watcher = w.library.Watch(o)
	t.Cleanup(w.Close)
	w.Models()
	w.Subscribe(func(changes []Change, _ []Model) {
		for _, c := range changes {
			w.changes = append(w.changes,
				fmt.Sprintf("%s %s %s", c.Kind, c.Model.ID, c.Model.State))
		}
	})
	return w
}

func (w *watching) events() (events, error) {
	real, err := fsnotify.NewWatcher()
	if err != nil {
		return events{}, err
	}
	if err := real.Add(w.markerDir); err != nil {
		return events{}, err
	}
	out := make(chan fsnotify.Event)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range real.Events {
			if filepath.Dir(e.Name) != w.markerDir {
				out <- e
			} else if e.Has(fsnotify.Create) {
				w.markerSeen <- struct{}{}
			}
		}
	}()
	return events{markerKeeper{real, w.markerDir}, out, real.Errors}, nil
}

// markerKeeper never removes the watch of markerDir, which a link in a root may lead to.
type markerKeeper struct {
	notifier
	markerDir string
}

func (k markerKeeper) Remove(dir string) error {
	if dir == k.markerDir {
		return nil
	}
	return k.notifier.Remove(dir)
}

// settle waits until all earlier events are delivered, then brings the list up to date.
func (w *watching) settle() {
	w.t.Helper()
	w.markers++
	marker := filepath.Join(w.markerDir, fmt.Sprint(w.markers))
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.markerSeen:
	case <-time.After(20 * time.Second):
		w.t.Fatal("the system has stopped reporting events")
	}
	w.do(func() { w.renew(renewNone) })
}

// tick does what the Watcher does every Poll interval.
func (w *watching) tick() { w.do(func() { w.check(); w.renew(renewNone) }) }

// published returns the changes that subscribers received since the last call.
func (w *watching) published() []string {
	var changes []string
	w.do(func() { changes, w.changes = w.changes, nil })
	return changes
}

// expectFresh compares the list with the list of a fresh scan.
func (w *watching) expectFresh(after string) {
	w.t.Helper()
	fresh := New(w.library.roots, engine.Options{}, new(fakeDescribe).describe).Scan()
	got := w.Models()
	for i := range max(len(got), len(fresh)) {
		if i >= len(got) || i >= len(fresh) ||
			!reflect.DeepEqual(comparableModel(got[i]), comparableModel(fresh[i])) {
			w.t.Fatalf("after %s the list is\n%s\na fresh scan finds\n%s", after, dump(got),
				dump(fresh))
		}
	}
}

// expectBudget compares the costs of the watches with the remaining budget.
func (w *watching) expectBudget() {
	w.t.Helper()
	w.do(func() {
		sum := w.interest.budget
		for _, dir := range w.interest.dirs {
			sum += dir.cost
		}
		if sum != w.options.budget {
			w.t.Errorf("the budget has become %d, it was %d", sum, w.options.budget)
		}
	})
}

// comparableModel returns a model without the fields that cannot be compared.
func comparableModel(m Model) Model {
	m.Source.FS = nil
	m.Err = errors.New(text(m.Err))
	return m
}

// dump formats models for messages.
func dump(models []Model) string {
	var b strings.Builder
	for _, m := range models {
		fmt.Fprintf(&b, "  %s %s at %s, %d bytes of %s, %v, %+v, %v, %v\n", m.State, m.ID, m.Dir,
			m.SizeBytes, m.Description.Architecture, m.Places, m.Download, m.Err, m.UpdatedAt)
	}
	return b.String()
}

// TestHubDownload writes files in huggingface_hub's order: first the ref, then blobs under another
// name until they are complete, then links in the snapshot.
func TestHubDownload(t *testing.T) {
	root := t.TempDir()
	w := watch(t, []string{root}, nil)
	repo := filepath.Join(root, "models--org--m")
	snapshot := "snapshots/c0ffee/"
	expect := func(after string, want ...string) {
		t.Helper()
		w.settle()
		w.expectFresh(after)
		if got := w.published(); !slices.Equal(got, want) {
			t.Errorf("after %s: published %q, want %q", after, got, want)
		}
	}
	download := func() Download { return *w.Models()[1].Download }

	plant(t, repo, "blobs/", "refs/main = c0ffee", "snapshots/")
	expect("the folders")
	plant(t, repo, "blobs/cfg.incomplete = x")
	expect("a first byte", "appeared org/m downloading")
	finish := func(blob, name string) {
		t.Helper()
		if err := os.Rename(filepath.Join(repo, "blobs", blob+".incomplete"),
			filepath.Join(repo, "blobs", blob)); err != nil {
			t.Fatal(err)
		}
		plant(t, repo, snapshot+name+" -> ../../blobs/"+blob)
	}
	finish("cfg", "config.json")
	plant(t, repo,
		`blobs/idx = {"metadata":{"total_size":24},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`,
		snapshot+indexName+" -> ../../blobs/idx")
	expect("config and index", "changed org/m downloading")
	if d := download(); len(d.Missing) != 2 || d.TotalBytes != 24 || d.DoneBytes != 0 {
		t.Errorf("%+v", d)
	}
	plant(t, repo, "blobs/w1.incomplete = 0123456789")
	expect("10 bytes", "changed org/m downloading")
	plant(t, repo, "blobs/w1.incomplete = 0123456789ab")
	expect("12 bytes", "changed org/m downloading")
	if d := download(); d.DoneBytes != 12 || !slices.Equal(d.Parts, []string{"w1.incomplete"}) {
		t.Errorf("%+v", d)
	}
	finish("w1", "model-00001-of-00002.safetensors")
	expect("a shard", "changed org/m downloading")
	if d := download(); d.DoneBytes != 12 || d.TotalBytes != 24 ||
		!slices.Equal(d.Missing, []string{"model-00002-of-00002.safetensors"}) || d.Parts != nil {
		t.Errorf("%+v", d)
	}
	if calls := w.fake.calls; calls != 1 {
		t.Errorf("%d models were described, want only the bundled one", calls)
	}
	plant(t, repo, "blobs/w2.incomplete = 0123456789ab")
	finish("w2", "model-00002-of-00002.safetensors")
	expect("the last shard", "finished org/m ready")
	if m := w.Models()[1]; m.Dir != filepath.Join(repo, "snapshots/c0ffee") || m.SizeBytes != 24 ||
		m.Download != nil || m.Places[0].Origin != HuggingFace {
		t.Errorf("%+v", m)
	}
	if err := os.RemoveAll(repo); err != nil {
		t.Fatal(err)
	}
	expect("the removal", "vanished org/m ready")
	if s := w.Status(); s.WatchedFolders != 1 || s.PolledFolders != 0 {
		t.Errorf("finally %+v, want only the root", s)
	}
}

// TestFoldersCreatedLater: the Watcher finds a root whose parents are created later, a root behind
// a broken link, and a root that is moved away and back.
func TestFoldersCreatedLater(t *testing.T) {
	top := t.TempDir()
	deep, linked := filepath.Join(top, "a/b/c/models"), filepath.Join(top, "link/models")
	w := watch(t, []string{deep, linked}, nil)
	step := func(name string, want string, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.expectFresh(name)
		if got := strings.Join(w.published(), "; "); got != want {
			t.Errorf("%s: published %q, want %q", name, got, want)
		}
	}
	in := func(path string) string { return filepath.Join(top, path) }
	write := func(lines ...string) func() error {
		return func() error {
			plant(t, top, lines...)
			return nil
		}
	}
	step("an unrelated file", "", write("x/y = z"))
	step("some of the root's parents", "", write("a/b/"))
	step("the root with a model", "appeared one ready", write("a/b/c/models/one/config.json = 1"))
	step("a broken link", "", write("link -> volume"))
	step("the link's target", "appeared two ready", write("volume/models/two/config.json = 2"))
	step("the volume is renamed", "vanished two ready",
		func() error { return os.Rename(in("volume"), in("volume2")) })
	step("the volume is renamed back", "appeared two ready",
		func() error { return os.Rename(in("volume2"), in("volume")) })
	step("a change inside", "changed two ready", write("volume/models/two/config.json = 22"))
	step("the root is moved away", "vanished one ready",
		func() error { return os.Rename(deep, in("elsewhere")) })
	step("a change in the moved root", "", write("elsewhere/three/config.json = 3"))
	step("the root is moved back", "appeared one ready; appeared three ready",
		func() error { return os.Rename(in("elsewhere"), deep) })
	step("another root in its place", "changed three ready; vanished one ready", func() error {
		return errors.Join(os.Rename(deep, in("old")),
			os.MkdirAll(filepath.Join(deep, "three"), 0o755),
			os.WriteFile(filepath.Join(deep, "three", "config.json"), []byte("another"), 0o644))
	})
}

// TestLinks: the targets of links are watched until the links are removed.
func TestLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	w := watch(t, []string{root}, nil)
	step := func(name string, want string, do func()) {
		t.Helper()
		do()
		w.settle()
		w.expectFresh(name)
		if got := strings.Join(w.published(), "; "); got != want {
			t.Errorf("%s: published %q, want %q", name, got, want)
		}
	}
	plant(t, outside, "one/m/config.json = 1", "two/m/config.json = 22", "two/n/config.json = 3",
		"files/c = 1")
	step("a folder of models behind two links", "appeared pub/m ready", func() {
		plant(t, outside, "hop -> one")
		plant(t, root, "pub -> "+filepath.Join(outside, "hop"))
	})
	step("the second link is replaced", "changed pub/m ready; appeared pub/n ready", func() {
		plant(t, outside, "hop.new -> two")
		if err := os.Rename(filepath.Join(outside, "hop.new"),
			filepath.Join(outside, "hop")); err != nil {
			t.Fatal(err)
		}
	})
	step("a linked file", "appeared x ready",
		func() { plant(t, root, "x/config.json -> "+filepath.Join(outside, "files/c")) })
	step("the target of the linked file changes", "changed x ready",
		func() { plant(t, outside, "files/c = 22") })
	step("no links", "vanished pub/m ready; vanished pub/n ready; vanished x ready", func() {
		if err := errors.Join(os.Remove(filepath.Join(root, "pub")),
			os.Remove(filepath.Join(root, "x/config.json"))); err != nil {
			t.Fatal(err)
		}
	})
	if s := w.Status(); s.WatchedFolders != 2 { // the root, and x in it
		t.Errorf("%d folders are still watched, want 2", s.WatchedFolders)
	}
}

// TestParentsThatMove: if a parent of a root is renamed, or another volume is mounted there, no
// event says so, but the next poll finds it. Afterwards all folders are watched under their paths.
func TestParentsThatMove(t *testing.T) {
	const root = "volume/deep/models" // the other root is "near"
	cases := map[string]struct {
		before  []string
		renames [][2]string
		poll    string // published by a poll
		change  string // a file changed afterwards
		after   string // published by the event
	}{
		"out of the roots": {[]string{root + "/m/config.json = 1"},
			[][2]string{{"volume", "away"}},
			"vanished m ready", root + "/m/config.json = 22", "appeared m ready"},
		"another volume": {
			[]string{root + "/m/config.json = 1", "volume2/deep/models/m2/config.json = 1"},
			[][2]string{{"volume", "away"}, {"volume2", "volume"}},
			"appeared m2 ready; vanished m ready",
			root + "/m2/config.json = 22", "changed m2 ready"},
		"another volume, then an event in the old one": {
			[]string{root + "/m/config.json = 1", "volume2/deep/models/m2/config.json = 1"},
			[][2]string{{"volume", "away"}, {"volume2", "volume"},
				{"away/deep/models/m", "away/deep/models/n"}},
			"appeared m2 ready; vanished m ready",
			root + "/m3/config.json = 1", "appeared m3 ready"},
		"into another root": {[]string{root + "/config.json = 1"},
			[][2]string{{"volume/deep", "near/x"}},
			"appeared x/models ready; vanished models ready",
			"near/x/models/config.json = 22", "changed x/models ready"},
		"into another root and back": {[]string{root + "/config.json = 1"},
			[][2]string{{"volume/deep", "near/x"}, {"near/x", "volume/deep"}},
			"", root + "/config.json = 22", "changed models ready"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			plant(t, top, append(c.before, "near/")...)
			w := watch(t, []string{filepath.Join(top, "near"), filepath.Join(top, root)}, nil)
			expect := func(after, want string) {
				t.Helper()
				w.expectFresh(after)
				w.expectBudget()
				if got := strings.Join(w.published(), "; "); got != want {
					t.Errorf("%s: published %q, want %q", after, got, want)
				}
			}
			for _, r := range c.renames {
				from, to := filepath.Join(top, r[0]), filepath.Join(top, r[1])
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			w.settle()
			w.tick()
			expect("a poll", c.poll)
			plant(t, top, c.change)
			w.settle()
			expect("an event", c.after)
		})
	}
}

// TestWatchLimit: folders beyond the limit on watches are polled, and the status has the reason.
func TestWatchLimit(t *testing.T) {
	cases := map[string]struct {
		change func(*WatchOptions)
		reason string
	}{
		"the system's limit": {func(o *WatchOptions) {
			inner := o.events
			o.events = func() (events, error) {
				e, err := inner()
				e.notifier = &limited{e.notifier, 2}
				return e, err
			}
		}, "no space left on device"},
		"our limit": {func(o *WatchOptions) { o.budget = 2 },
			"the limit on watched folders is reached"},
		"no events": {func(o *WatchOptions) {
			o.events = func() (events, error) {
				return events{}, errors.New("not here")
			}
		}, "this system does not report changes to folders"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, "a/config.json = 1", "b/config.json = 1", "pub/c/config.json = 1")
			w := watch(t, []string{root}, c.change)
			if s := w.Status(); s.PolledFolders == 0 || s.WatchedFolders > 2 ||
				s.PollReason != c.reason {
				t.Errorf("%+v, want the reason %q", s, c.reason)
			}
			plant(t, root, "pub/c/config.json = 22", "pub/d/config.json = 1",
				"b/model.safetensors.part = 1")
			w.tick()
			w.expectFresh("a poll")
			w.expectBudget()
			got := strings.Join(w.published(), "; ")
			if got != "changed b downloading; changed pub/c ready; appeared pub/d ready" {
				t.Errorf("published %q", got)
			}
		})
	}
}

// limited refuses a watch when none is left, like the kernel.
type limited struct {
	notifier
	left int
}

func (l *limited) Add(dir string) error {
	if l.left == 0 {
		return errors.New("no space left on device")
	}
	l.left--
	return l.notifier.Add(dir)
}

func (l *limited) Remove(dir string) error {
	l.left++
	return l.notifier.Remove(dir)
}

// TestOverflow: when the system drops events, everything is read again.
func TestOverflow(t *testing.T) {
	root := t.TempDir()
	lost := make(chan error)
	renewed := make(chan struct{}, 8)
	w := watch(t, []string{root}, func(o *WatchOptions) {
		o.events = func() (events, error) {
			return events{deaf{}, make(chan fsnotify.Event), lost}, nil
		}
		o.Quiet, o.renewed = time.Nanosecond, func() { renewed <- struct{}{} }
	})
	<-renewed
	plant(t, root, "m/config.json = 1")
	lost <- fsnotify.ErrEventOverflow
	<-renewed
	w.expectFresh("an overflow")
}

// deaf is a notifier that does nothing.
type deaf struct{}

func (deaf) Add(string) error    { return nil }
func (deaf) Remove(string) error { return nil }
func (deaf) Close() error        { return nil }

// TestTimers: the Watcher's own timers keep the list up to date.
func TestTimers(t *testing.T) {
	root := t.TempDir()
	l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
	w := l.Watch(WatchOptions{Quiet: time.Millisecond})
	defer w.Close()
	w.Models()
	published := make(chan string, 8)
	done := w.Subscribe(func(changes []Change, models []Model) {
		published <- fmt.Sprint(changes[0].Kind, " ", len(models))
	})
	plant(t, root, "m/config.json = 1")
	select {
	case got := <-published:
		if got != "appeared 2" {
			t.Errorf("published %q", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no change is published")
	}
	done()
	w.Rescan()
	if n := len(w.Models()); n != 2 {
		t.Errorf("%d models", n)
	}
}

func TestPause(t *testing.T) {
	root := t.TempDir()
	w := watch(t, []string{root}, func(o *WatchOptions) { o.Paused = true })
	if s := w.Status(); !s.Paused || s.WatchedFolders != 0 {
		t.Errorf("%+v", s)
	}
	plant(t, root, "m/config.json = 1")
	if n := len(w.Models()); n != 1 {
		t.Errorf("%d models although paused", n)
	}
	w.Rescan()
	w.expectFresh("a scan on demand")
	plant(t, root, "n/config.json = 1")
	w.Pause(false)
	w.expectFresh("the pause")
	if got := strings.Join(w.published(), "; "); got != "appeared m ready; appeared n ready" {
		t.Errorf("published %q", got)
	}
	w.Pause(true)
	if s := w.Status(); !s.Paused || s.WatchedFolders != 0 {
		t.Errorf("%+v", s)
	}
}

// TestOnlyChangedFoldersAreReadAgain counts the folders that are read after a change to one of many
// models.
func TestOnlyChangedFoldersAreReadAgain(t *testing.T) {
	root := t.TempDir()
	for i := range 50 {
		plant(t, root, fmt.Sprintf("pub%d/m/config.json = 1", i))
	}
	w := watch(t, []string{root}, nil)
	read := 0
	w.do(func() {
		keep := w.scanner.folders.keep
		w.scanner.folders.keep = func(l *listing) { read++; keep(l) }
	})
	calls := w.fake.calls
	plant(t, root, "pub7/m/config.json = 22")
	w.settle()
	w.expectFresh("a change")
	if read != 1 || w.fake.calls != calls+1 {
		t.Errorf("%d folders read and %d described, want 1 and 1", read, w.fake.calls-calls)
	}
}

// BenchmarkChange measures the time from a change to the new list, for small and large libraries.
// It reports the times of a fresh scan, of the first list and of a rescan (renew), and the number
// of watches.
func BenchmarkChange(b *testing.B) {
	for _, models := range []int{10, 1000} {
		b.Run(fmt.Sprintf("%d files", 10*models), func(b *testing.B) {
			root := b.TempDir()
			for m := range models {
				dir := filepath.Join(root, fmt.Sprintf("pub%d", m%20), fmt.Sprint("m", m))
				_ = os.MkdirAll(dir, 0o755)
				for f := range 9 {
					_ = os.WriteFile(filepath.Join(dir,
						fmt.Sprintf("model-%05d-of-00009.safetensors", f+1)), nil, 0o644)
				}
				_ = os.WriteFile(filepath.Join(dir, "config.json"), []byte(fmt.Sprint(m)), 0o644)
			}
			renewed := make(chan struct{}, 1)
			l := New([]string{root}, engine.Options{}, new(fakeDescribe).describe)
			started := time.Now()
			l.Scan()
			fresh := time.Since(started)
			w := l.Watch(WatchOptions{Quiet: time.Nanosecond, Poll: time.Hour, renewed: func() {
				select {
				case renewed <- struct{}{}:
				default:
				}
			}})
			defer w.Close()
			<-renewed
			first := w.Status()
			n := 0
			for b.Loop() {
				n++
				if err := os.WriteFile(filepath.Join(root, "pub0", "m0", "config.json"),
					[]byte(strings.Repeat("x", n%7+1)), 0o644); err != nil {
					b.Fatal(err)
				}
				<-renewed
			}
			b.ReportMetric(float64(fresh.Microseconds())/1000, "ms/fresh-scan")
			b.ReportMetric(float64(first.ScanTime.Microseconds())/1000, "ms/first-list")
			b.ReportMetric(float64(w.Status().ScanTime.Microseconds())/1000, "ms/renew")
			b.ReportMetric(float64(first.WatchedFolders), "watches")
		})
	}
}
