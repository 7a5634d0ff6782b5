package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/engine/guard"
	"headroom/engine/problem"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *Store, name string, l Limits) (Key, string) {
	t.Helper()
	k, text, err := s.Add(name, l)
	if err != nil {
		t.Fatal(err)
	}
	return k, text
}

func code(err error) problem.Code {
	if err == nil {
		return ""
	}
	return problem.From(err).Code
}

// TestKeys: a key passes from when it is made until it is removed, in this program, another one and
// the next. Only its hash is on disk.
func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	s, other := open(t, dir), open(t, dir)
	if s.Any() || s.Find("") != nil || len(s.List()) != 0 {
		t.Error("there are keys in a new folder")
	}
	k, text := add(t, s, " laptop ", Limits{Models: []string{"b", "a", "b"}, Priority: Batch})
	_, second := add(t, other, "Phone", Limits{})
	if len(text) != len(guard.KeyPrefix)+43 ||
		guard.RedactKeys("a "+text+"/b") != "a [API key]/b" ||
		text == second || k.Name != "laptop" ||
		!strings.HasPrefix(k.Hash, k.ID) {
		t.Errorf("made %+v with the text %q", k, text)
	}
	for i, store := range []*Store{s, other, open(t, dir)} {
		c := store.Find(text)
		if c == nil || c.Name != "laptop" || !slices.Equal(c.Models, []string{"a", "b"}) ||
			c.Priority != -1 || !store.Any() || store.Count() != 2 {
			t.Fatalf("store %d: %+v", i, c)
		}
		if c := store.Find(second); c == nil || c.Name != "Phone" || c.Models != nil ||
			c.Priority != 0 {
			t.Errorf("store %d: %+v", i, c)
		}
		for _, wrong := range []string{"", "x", text + "x", text[:len(text)-1],
			strings.ToLower(text), k.Hash, k.ID, "laptop"} {
			if store.Find(wrong) != nil {
				t.Errorf("store %d: %q passes", i, wrong)
			}
		}
	}
	for _, path := range files(t, dir) {
		data, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || bytes.Contains(data, []byte(text)) ||
			bytes.Contains(data, []byte(strings.TrimPrefix(text, guard.KeyPrefix))) ||
			info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the key, or mode %v; %v", path, info.Mode(), err)
		}
	}
	removed, left, err := other.Remove("LAPTOP")
	if err != nil || removed.ID != k.ID || left != 1 || s.Find(text) != nil ||
		s.Find(second) == nil {
		t.Errorf("removed %+v, %d left, %v", removed, left, err)
	}
	if _, left, err := s.Remove(s.List()[0].ID); err != nil || left != 0 || s.Any() || other.Any() {
		t.Errorf("%d are left, %v", left, err)
	}
}

func files(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%q, %v", paths, err)
	}
	return paths
}

// TestRefusals: names and limits that make no sense are refused, and nothing is written.
func TestRefusals(t *testing.T) {
	s := open(t, t.TempDir())
	k, _ := add(t, s, "laptop", Limits{})
	other, _ := add(t, s, "Küche – 2", Limits{ConcurrentRequests: MaxConcurrent,
		RequestsPerMinute: MaxPerMinute})
	for _, c := range []struct {
		name   string
		limits Limits
		want   problem.Code
	}{
		{"", Limits{}, problem.BadRequest},
		{" \t", Limits{}, problem.BadRequest},
		{"a\nb", Limits{}, problem.BadRequest},
		{"a\x1b[31m", Limits{}, problem.BadRequest},
		{"a\xff", Limits{}, problem.BadRequest},
		{"\u202eb", Limits{}, problem.BadRequest},
		{strings.Repeat("ü", 65), Limits{}, problem.BadRequest},
		{"Laptop", Limits{}, problem.Exists},
		{"x", Limits{RequestsPerMinute: -1}, problem.BadRequest},
		{"x", Limits{RequestsPerMinute: MaxPerMinute + 1}, problem.BadRequest},
		{"x", Limits{ConcurrentRequests: -1}, problem.BadRequest},
		{"x", Limits{ConcurrentRequests: MaxConcurrent + 1}, problem.BadRequest},
		{"x", Limits{Priority: "urgent"}, problem.BadRequest},
		{"x", Limits{Models: []string{" "}}, problem.BadRequest},
		{"x", Limits{Models: []string{strings.Repeat("m", maxIDBytes+1)}}, problem.BadRequest},
		{"x", Limits{Models: make([]string, maxModels+1)}, problem.BadRequest},
	} {
		if _, text, err := s.Add(c.name, c.limits); code(err) != c.want || text != "" {
			t.Errorf("Add(%q, %+v): %v", c.name, c.limits, err)
		}
		if _, err := s.Set(other.ID, c.name, c.limits); code(err) != c.want {
			t.Errorf("Set(%q, %+v): %v", c.name, c.limits, err)
		}
	}
	if _, err := s.Set("none", "x", Limits{}); code(err) != problem.NotFound {
		t.Error(err)
	}
	if _, _, err := s.Remove("none"); code(err) != problem.NotFound ||
		!strings.Contains(err.Error(), "The keys are Küche – 2, laptop.") {
		t.Error(err)
	}
	if set, err := s.Set(k.ID, "LAPTOP", Limits{RequestsPerMinute: 7}); err != nil ||
		set.Name != "LAPTOP" || set.Hash != k.Hash {
		t.Errorf("%+v, %v", set, err)
	}
	list := open(t, s.dir).List()
	if len(list) != 2 || list[0].Name != "Küche – 2" || list[1].RequestsPerMinute != 7 ||
		!list[1].Created.Equal(k.Created) {
		t.Errorf("%+v", list)
	}
}

// TestTooManyKeys: a file with the most keys can be read, and gets no further one. One with more
// keys cannot be read.
func TestTooManyKeys(t *testing.T) {
	s := open(t, t.TempDir())
	err := s.change(func([]Key) (list []Key, err error) {
		for i := range maxKeys {
			k := hashed(fmt.Sprint(i))
			k.Name = fmt.Sprint("key ", i)
			list = append(list, k)
		}
		return list, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	full := open(t, s.dir)
	if _, _, err := full.Add("more", Limits{}); code(err) != problem.BadRequest ||
		!strings.Contains(err.Error(), "1000 API keys") || full.Count() != maxKeys {
		t.Errorf("%d keys, %v", full.Count(), err)
	}
	if err := s.change(func(list []Key) ([]Key, error) {
		k := hashed("more")
		k.Name = "more"
		return append(list, k), nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir); err == nil || !strings.Contains(err.Error(), "the limit is 1000") {
		t.Error(err)
	}
}

// valid is the text of a file with one key.
func valid(change func(*Key)) string {
	k := hashed("hr-text")
	k.Name = "n"
	if change != nil {
		change(&k)
	}
	return fmt.Sprintf(`{"version":1,"keys":[{"id":%q,"name":%q,"hash":%q,`+
		`"requestsPerMinute":%d,"priority":%q}]}`, k.ID, k.Name, k.Hash, k.RequestsPerMinute,
		k.Priority)
}

// damaged are files that cannot be read.
var damaged = map[string]string{
	"empty": "", "null": "null", "no version": "{}", "cut off": valid(nil)[:90],
	"a list":     "[]",
	"two":        valid(nil) + valid(nil),
	"version 0":  `{"version":0,"keys":[]}`,
	"short hash": valid(func(k *Key) { k.Hash = k.Hash[:62] }),
	"no hash":    valid(func(k *Key) { k.Hash = strings.Repeat("x", 64) }),
	"another ID": valid(func(k *Key) { k.ID = strings.Repeat("0", 16) }),
	"no name":    valid(func(k *Key) { k.Name = "" }),
	"a limit":    valid(func(k *Key) { k.RequestsPerMinute = -1 }),
	"a priority": valid(func(k *Key) { k.Priority = "urgent" }),
	"no keys":    `{"version":1}`,
	"keys null":  `{"version":1,"keys":null}`,
	"other list": `{"version":1,"kays":[]}`,
	"later":      `{"version":99,"entries":[]}`,
	"a name":     strings.Replace(valid(nil), "requestsPerMinute", "requestPerMinute", 1),
	"zeros":      strings.Repeat("\x00", 300),
	"too long":   valid(nil) + strings.Repeat(" ", maxBytes),
	"twice": `{"version":1,"keys":[` + strings.Repeat(valid(nil)[21:len(valid(nil))-2]+",", 1) +
		valid(nil)[21:],
}

// TestDamageCloses: a file that cannot be read at the start closes the endpoint, and is not
// overwritten. As soon as it can be read, it applies.
func TestDamageCloses(t *testing.T) {
	for name, text := range damaged {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			write(t, path, text)
			s, err := Open(dir)
			if err == nil || !strings.Contains(err.Error(), path) || !s.Any() ||
				s.Find("hr-text") != nil || s.Find("") != nil {
				t.Fatalf("open: %v", err)
			}
			if _, _, err := s.Add("x", Limits{}); err == nil {
				t.Error("a key was added")
			}
			if data, _ := os.ReadFile(path); string(data) != text {
				t.Errorf("the file was overwritten with %.200q", data)
			}
			write(t, path, valid(nil))
			if c := s.Find("hr-text"); c == nil || c.Name != "n" {
				t.Errorf("after a repair: %+v", c)
			}
			if _, _, err := s.Add("x", Limits{}); err != nil || len(open(t, dir).List()) != 2 {
				t.Error(err)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestDamageWhileRunning: whatever becomes of the file, a running server keeps its keys, unless a
// file that can be read lacks them.
func TestDamageWhileRunning(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for name, text := range damaged {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			s := open(t, t.TempDir())
			_, key := add(t, s, "laptop", Limits{})
			write(t, s.path(), text)
			for range 3 {
				if s.Find(key) == nil || !s.Any() {
					t.Fatal("the key passes no more")
				}
			}
			if n := strings.Count(log.String(), "read before stay"); n != 1 {
				t.Errorf("%d warnings: %s", n, log.String())
			}
			if _, _, err := s.Remove("laptop"); err == nil {
				t.Error("the damaged file was overwritten")
			}
			if err := os.Remove(s.path()); err != nil {
				t.Fatal(err)
			}
			if s.Find(key) == nil {
				t.Error("the file is gone, and the key passes no more")
			}
			if _, _, err := s.Add("x", Limits{}); err != nil || len(open(t, s.dir).List()) != 2 {
				t.Errorf("the key was not written again: %v", err)
			}
			write(t, s.path(), `{"version":1,"keys":[]}`)
			if s.Find(key) != nil || s.Any() {
				t.Error("the file has no keys, and one passes")
			}
		})
	}
}

// TestLaterVersion: the keys of a later version apply, and its file is not overwritten.
func TestLaterVersion(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(valid(nil), `"version":1`, `"version":3,"new":true`, 1)
	write(t, filepath.Join(dir, fileName), text)
	s := open(t, dir)
	if s.Find("hr-text") == nil {
		t.Error("the key does not pass")
	}
	if _, _, err := s.Add("x", Limits{}); err == nil ||
		!strings.Contains(err.Error(), "later version") {
		t.Error(err)
	}
	if data, _ := os.ReadFile(s.path()); string(data) != text {
		t.Errorf("overwritten: %s", data)
	}
}

// TestTwoPrograms: programs that write at once lose neither keys nor usage.
func TestTwoPrograms(t *testing.T) {
	dir := t.TempDir()
	const programs, each = 4, 12
	shared, text := add(t, open(t, dir), "shared", Limits{})
	var all sync.WaitGroup
	for p := range programs {
		all.Go(func() {
			s, err := Open(dir)
			for i := 0; i < each && err == nil; i++ {
				if _, _, err = s.Add(fmt.Sprint(p, "-", i), Limits{}); err != nil {
					break
				}
				if i%3 == 2 {
					_, _, err = s.Remove(fmt.Sprint(p, "-", i-1))
				}
				var end func(guard.Used)
				if end, err = s.Find(text).Begin(func(error) {}); err == nil {
					end(guard.Used{PromptTokens: 10, GeneratedTokens: 3})
					err = s.save()
				}
			}
			if err = errors.Join(err, s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list := open(t, dir).List()
	i := slices.IndexFunc(list, func(k Listed) bool { return k.ID == shared.ID })
	if len(list) != 1+programs*each*2/3 || i < 0 {
		t.Fatalf("%d keys", len(list))
	}
	if u := list[i].Usage; u.Requests != programs*each || u.PromptTokens != programs*each*10 ||
		u.GeneratedTokens != programs*each*3 {
		t.Errorf("%+v", u)
	}
	if temporary, _ := filepath.Glob(filepath.Join(dir, ".*")); len(temporary) > 0 {
		t.Errorf("left behind: %q", temporary)
	}
}

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) get() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func withClock(t *testing.T) (*Store, *clock) {
	s := open(t, t.TempDir())
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	s.now = c.get
	return s, c
}

// TestRequestsPerMinute: no minute has more requests than the limit, wherever it begins. A refusal
// says when the next one passes, and does not count.
func TestRequestsPerMinute(t *testing.T) {
	s, now := withClock(t)
	k, text := add(t, s, "k", Limits{RequestsPerMinute: 3})
	for i, c := range []struct {
		after time.Duration // since the request before
		want  time.Duration // until a request passes; 0: this one does
	}{
		{0, 0},
		{20 * time.Second, 0},                       // 20
		{20 * time.Second, 0},                       // 40
		{1 * time.Second, 19 * time.Second},         // 41: the first leaves at 60
		{18500 * time.Millisecond, time.Second / 2}, // 59.5
		{500 * time.Millisecond, 0},                 // 60; now 20, 40 and 60 count
		{0, 20 * time.Second},                       // 60: the second leaves at 80
		{20 * time.Second, 0},                       // 80
		{time.Hour, 0}, {10 * time.Second, 0}, {10 * time.Second, 0}, {0, 40 * time.Second},
	} {
		now.advance(c.after)
		end, err := s.Find(text).Begin(func(error) {})
		if c.want == 0 {
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			} else {
				end(guard.Used{})
			}
			continue
		}
		if code(err) != problem.Busy || problem.From(err).RetryAfter != c.want {
			t.Errorf("request %d: %v, %v; want %v", i, err, problem.From(err).RetryAfter, c.want)
		}
	}
	// A smaller limit: of the three requests of this minute, the first two must leave.
	if _, err := s.Set(k.ID, "k", Limits{RequestsPerMinute: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(text).Begin(func(error) {}); code(err) != problem.Busy ||
		problem.From(err).RetryAfter != 50*time.Second {
		t.Errorf("%v, %v", err, problem.From(err).RetryAfter)
	}
	if got := s.List()[0].Requests; got != 8 {
		t.Errorf("%d requests are counted, want 8", got)
	}
}

// TestConcurrentRequests: a key has no more requests at once than its limit. Another key has its
// own. The end of a request makes room.
func TestConcurrentRequests(t *testing.T) {
	s, _ := withClock(t)
	_, text := add(t, s, "k", Limits{ConcurrentRequests: 2, RequestsPerMinute: 3})
	_, other := add(t, s, "other", Limits{ConcurrentRequests: 1})
	begin := func(text string) (func(guard.Used), error) {
		return s.Find(text).Begin(func(error) {})
	}
	first, err := begin(text)
	_, err2 := begin(text)
	if _, err3 := begin(other); errors.Join(err, err2, err3) != nil {
		t.Fatal(err, err2, err3)
	}
	for range 3 { // refusals count neither here nor in the minute
		if _, err := begin(text); code(err) != problem.Busy ||
			!strings.Contains(err.Error(), "2 requests at once") {
			t.Fatal(err)
		}
	}
	first(guard.Used{})
	if _, err := begin(text); err != nil {
		t.Error(err)
	}
}

// TestRemovedWhileRunning: the requests of a removed key end at once, also if another program has
// removed it. Those of others go on.
func TestRemovedWhileRunning(t *testing.T) {
	s := open(t, t.TempDir())
	_, text := add(t, s, "k", Limits{})
	_, other := add(t, s, "other", Limits{})
	contexts := map[string]context.Context{}
	var late *guard.Caller
	for _, text := range []string{text, other} {
		late = s.Find(text)
		ctx, cancel := context.WithCancelCause(t.Context())
		contexts[text] = ctx
		end, err := late.Begin(cancel)
		if err != nil {
			t.Fatal(err)
		}
		defer end(guard.Used{PromptTokens: 1}) // after the removal
	}
	late = s.Find(text)
	if _, _, err := open(t, s.dir).Remove("k"); err != nil {
		t.Fatal(err)
	}
	s.Any() // any look at the file
	if err := context.Cause(contexts[text]); code(err) != problem.Unauthorized {
		t.Errorf("the request of the removed key: %v", err)
	}
	if contexts[other].Err() != nil {
		t.Error("the request of another key has ended")
	}
	if _, err := late.Begin(func(error) {}); code(err) != problem.Unauthorized {
		t.Errorf("a request between the two checks: %v", err)
	}
}

// TestUsage: usage is counted at once, written rarely, and survives a restart. Of a removed key
// nothing stays.
func TestUsage(t *testing.T) {
	s, now := withClock(t)
	k, text := add(t, s, "k", Limits{})
	gone, goneText := add(t, s, "gone", Limits{})
	for range 5 {
		for _, text := range []string{text, goneText} {
			end, err := s.Find(text).Begin(func(error) {})
			if err != nil {
				t.Fatal(err)
			}
			end(guard.Used{PromptTokens: 1000, GeneratedTokens: 7})
		}
		now.advance(time.Second)
	}
	want := Usage{Requests: 5, PromptTokens: 5000, GeneratedTokens: 35,
		LastUse: time.Unix(1_800_000_004, 0).UTC()}
	if got := s.List()[1].Usage; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := os.Stat(s.usagePath()); err == nil {
		t.Error("usage was written with a request")
	}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Remove("gone"); err != nil {
		t.Fatal(err)
	}
	s.Find(text)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(s.usagePath()); err != nil ||
		bytes.Contains(data, []byte(gone.ID)) || !bytes.Contains(data, []byte(k.ID)) {
		t.Errorf("%s %v", data, err)
	}
	again := open(t, s.dir)
	again.Find(text)
	if got := again.List()[0].Usage; got.Requests != 5 || got.PromptTokens != 5000 ||
		!got.LastUse.After(want.LastUse.Add(-1)) {
		t.Errorf("after a restart: %+v", got)
	}
	if err := again.ClearUsage(); err != nil {
		t.Fatal(err)
	}
	if got := again.List(); len(got) != 1 || got[0].Usage != (Usage{}) {
		t.Errorf("cleared: %+v", got)
	}
	if got := open(t, s.dir).List(); len(got) != 1 || got[0].Usage != (Usage{}) {
		t.Errorf("cleared, after a restart: %+v", got)
	}
	write(t, s.usagePath(), "{")
	if got := again.List(); len(got) != 1 || got[0].Usage != (Usage{}) {
		t.Errorf("with damaged usage: %+v", got)
	}
}

// TestUsageIsSaved: usage is saved a while after the first use, without a further request. What
// cannot be saved is kept for the next time.
func TestUsageIsSaved(t *testing.T) {
	s := open(t, t.TempDir())
	_, text := add(t, s, "k", Limits{})
	s.Find(text)
	s.mu.Lock()
	timer := s.saving
	s.mu.Unlock()
	if err := os.Mkdir(s.usagePath(), 0o700); err != nil { // cannot be replaced by a file
		t.Fatal(err)
	}
	if err := s.save(); err == nil {
		t.Fatal("a folder was replaced")
	}
	if got := s.List()[0].Usage; got.LastUse.IsZero() {
		t.Error("the usage that could not be saved is lost")
	}
	if err := os.Remove(s.usagePath()); err != nil {
		t.Fatal(err)
	}
	s.Find(text)
	s.mu.Lock()
	if s.saving == timer || s.saving == nil {
		t.Error("no timer is set after a failure")
	}
	s.saving.Reset(0)
	s.mu.Unlock()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if len(open(t, s.dir).readUsage().Keys) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the timer saves nothing")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Find(text); s.saving != nil {
		t.Error("a closed store would save")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid(nil)))
	for _, text := range damaged {
		f.Add([]byte(text[:min(len(text), 1000)]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parse(data)
		if err != nil {
			return
		}
		s := &Store{states: map[string]*state{}}
		s.adopt(d, nil)
		for i, k := range s.list {
			if k.Name == "" || fmt.Sprintf("%x", s.hashes[i]) != strings.ToLower(k.Hash) {
				t.Errorf("%q: %+v", data, k)
			}
		}
	})
}

// TestDamagedFirstKey: a server without keys runs when a damaged file appears. Somebody may have
// added the first key, so requests need one, until the file is repaired.
func TestDamagedFirstKey(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil || s.Any() {
		t.Fatalf("any %t, %v", s.Any(), err)
	}
	path := filepath.Join(dir, fileName)
	if err := os.WriteFile(path, []byte(`{"version":1,"keys":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	if !s.Any() {
		t.Error("a damaged file opens the endpoint")
	}
	if err := os.WriteFile(path, []byte(`{"version":1,"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Any() {
		t.Error("a repaired file without keys closes the endpoint")
	}
}
