package chats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/problem"
	"headroom/engine/seal"
)

var testKey, _ = seal.KeyOf(bytes.Repeat([]byte{7}, seal.KeyBytes))

// openStore opens a store with testKey.
func openStore(dir string) *Store {
	return Open(dir, func() (seal.Key, error) { return testKey, nil })
}

func mustKeys(t testing.TB, s *Store) keys {
	t.Helper()
	k, err := s.keys()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func question(id, text string) Message { return Message{ID: id, Role: "user", Content: text} }

func answer(id, text string) Message {
	return Message{ID: id, Role: "assistant", Content: text, Reasoning: "a\nb", End: "stop",
		Model: "m",
		Calls: []Call{{"weather", `{"city":"Oslo"}`}}, Error: &Fault{Code: "busy"},
		Stats: &Figures{AnswerTokens: 3, TokensPerSecond: 0.1}}
}

// mustWrite writes a change and fails the test on an error.
func mustWrite(t *testing.T, s *Store, id string, c Change) Summary {
	t.Helper()
	after, err := s.Write(id, c)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func codeOf(err error) problem.Code {
	if err == nil {
		return ""
	}
	return problem.From(err).Code
}

// TestRandomOperations: after each of 300 random writes, removals and restarts, the store has the
// same conversations as a map.
func TestRandomOperations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chats")
	s, model := openStore(dir), map[string]Chat{}
	r := rand.New(rand.NewPCG(1, 2))
	for step := range 300 {
		id := fmt.Sprintf("c-%d", r.IntN(6))
		have, exists := model[id]
		switch r.IntN(10) {
		case 0:
			s = openStore(dir) // a restart
		case 1:
			if err := s.Remove(id); err != nil {
				t.Fatal(err)
			}
			delete(model, id)
		default:
			from := 0
			if exists {
				from = r.IntN(len(have.Messages) + 1)
			}
			added := []Message{}
			for i := range r.IntN(3) {
				added = append(added, question(fmt.Sprint(step, i),
					strings.Repeat("é<&\n", r.IntN(50))), answer("a", "said"))
			}
			c := Change{Revision: have.Summary.Revision, Title: fmt.Sprintf("title %d", step),
				UpdatedAtUnixMs: int64(step + 1), From: from, Messages: added}
			after := mustWrite(t, s, id, c)
			messages := append(append([]Message{}, have.Messages[:from]...), added...)
			model[id] = Chat{Summary: after, Messages: messages}
			if after.Title != c.Title || after.Messages != len(messages) ||
				after.Revision != c.Revision+1 {
				t.Fatalf("step %d: %+v", step, after)
			}
			if codeOf(second(s.Write(id, c))) != problem.Changed {
				t.Fatalf("step %d: a second write on revision %d succeeded", step, c.Revision)
			}
		}
		list, err := s.List()
		if err != nil || len(list) != len(model) {
			t.Fatalf("step %d: %d conversations, want %d: %v", step, len(list), len(model), err)
		}
		for i, one := range list {
			if i > 0 && list[i-1].UpdatedAtUnixMs < one.UpdatedAtUnixMs {
				t.Fatalf("step %d: the list is not sorted by time", step)
			}
			got, err := s.Read(one.ID)
			if want := model[one.ID]; err != nil || one != want.Summary ||
				got.Summary != want.Summary || !reflect.DeepEqual(got.Messages, want.Messages) {
				t.Fatalf("step %d: %+v, %v, want %+v", step, got, err, want)
			}
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", info.Mode())
	}
	list, _ := s.List()
	for _, one := range list {
		if info, err := os.Stat(one.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("a file has mode %v", info.Mode())
		}
	}
}

func second[A any](_ A, err error) error { return err }

// A crash between write and rename leaves the old conversation and a temporary file, which a later
// Open removes.
func TestCrashBetweenWriteAndRename(t *testing.T) {
	dir := t.TempDir()
	s := openStore(dir)
	before := mustWrite(t, s, "a", Change{Title: "old", Messages: []Message{question("1", "kept")}})
	leftover, recent := filepath.Join(dir, ".a.json1"), filepath.Join(dir, ".a.json2")
	for _, path := range []string{leftover, recent} {
		if err := os.WriteFile(path, []byte(`{"version":1,"id":"a","ti`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(leftover, old, old); err != nil {
		t.Fatal(err)
	}
	s = openStore(dir)
	if c, err := s.Read("a"); err != nil || c.Summary != before || c.Messages[0].Content != "kept" {
		t.Errorf("%+v, %v", c, err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := os.Stat(leftover); err == nil {
		t.Error("the leftover temporary file was not removed")
	}
	if _, err := os.Stat(recent); err != nil {
		t.Error("a recent temporary file was removed, which another program may be writing")
	}
}

// A damaged file is listed with a description of the damage, read as far as possible, and never
// overwritten.
func TestDamagedFiles(t *testing.T) {
	whole := encode(Chat{Summary: Summary{ID: "a", Title: "T", UpdatedAtUnixMs: 5, Revision: 2},
		Messages: []Message{question("1", "one"), answer("2", "two"), question("3", "three")}})
	lines := bytes.SplitAfter(whole, []byte("\n"))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	garbled := func(l []byte) []byte { return append(bytes.Repeat([]byte("x"), len(l)-1), '\n') }
	for _, c := range []struct {
		name     string
		data     []byte
		damage   string
		title    string
		readable int
		listed   bool // whether List, which reads only the header, detects the damage
	}{
		{"an empty file", nil, "not a header", "", 0, true},
		{"no JSON", []byte("\x00\xff\n"), "not a header", "", 0, true},
		{"a JSON list as header", join([]byte("[]\n"), lines[1]), "not a header", "", 1, true},
		{"no header", join(lines[1:]...), "not a header", "", 2, true},
		{"truncated", whole[:len(whole)-len(lines[3])-4], "bytes follow", "T", 1,
			true},
		{"an invalid line", join(lines[0], lines[1], garbled(lines[2]), lines[3]),
			"2 of 3 messages", "T", 2, false},
		{"an invalid role",
			bytes.Replace(whole, []byte(`"role":"user"`), []byte(`"role":"root"`), 1),
			"2 of 3 messages", "T", 2, false},
		{"an extra line", join(whole, lines[1]), "bytes follow", "T", 4, true},
		{"another ID", bytes.Replace(whole, []byte(`"id":"a"`), []byte(`"id":"b"`), 1),
			"names another conversation", "T", 3, true},
		{"a later format", bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":2`), 1),
			"a later version of Headroom", "T", 3, true},
	} {
		for _, ext := range []string{plainSuffix, suffix} {
			t.Run(c.name+ext, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "a"+ext)
				s := openStore(dir)
				if ext == suffix {
					if err := s.replace(mustKeys(t, s), "a", c.data); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(path, c.data, 0o600); err != nil {
					t.Fatal(err)
				}
				written, _ := os.ReadFile(path)
				list, err := s.List()
				if err != nil || len(list) != 1 || list[0].Title != c.title ||
					list[0].Path != path || list[0].UpdatedAtUnixMs == 0 {
					t.Fatalf("%+v, %v", list, err)
				}
				if strings.Contains(list[0].Damage, c.damage) != c.listed {
					t.Errorf("listed with %q", list[0].Damage)
				}
				got, err := s.Read("a")
				if err != nil || !strings.Contains(got.Summary.Damage, c.damage) ||
					len(got.Messages) != c.readable {
					t.Errorf("%+v, %v", got, err)
				}
				for _, revision := range []int{0, 1, 2} {
					_, err := s.Write("a", Change{Revision: revision, Title: "overwritten"})
					if codeOf(err) != problem.Changed {
						t.Errorf("a write on revision %d: %v", revision, err)
					}
				}
				if now, _ := os.ReadFile(path); !bytes.Equal(now, written) {
					t.Error("the file has changed")
				}
			})
		}
	}
}

func TestWritesRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(dir)
	mustWrite(t, s, "a", Change{Messages: []Message{question("1", "x")}})
	many := make([]Message, maxMessages)
	for i := range many {
		many[i] = question("1", "")
	}
	for _, c := range []struct {
		name, id string
		change   Change
		code     problem.Code
	}{
		{"an empty ID", "", Change{}, problem.BadRequest},
		{"the parent folder", "../a", Change{}, problem.BadRequest},
		{"a hidden file", ".a", Change{}, problem.BadRequest},
		{"a capital letter (some file systems ignore case)", "A", Change{}, problem.BadRequest},
		{"a long ID", strings.Repeat("a", 65), Change{}, problem.BadRequest},
		{"a zero byte", "a\x00", Change{}, problem.BadRequest},
		{"a new conversation that keeps messages", "b", Change{From: 1}, problem.BadRequest},
		{"a negative index", "a", Change{Revision: 1, From: -1}, problem.BadRequest},
		{"an unknown role", "a",
			Change{Revision: 1, Messages: []Message{{ID: "1", Role: "system"}}},
			problem.BadRequest},
		{"an unknown end", "a",
			Change{Revision: 1, Messages: []Message{{ID: "1", Role: "user", End: "x"}}},
			problem.BadRequest},
		{"no id", "a", Change{Revision: 1, Messages: []Message{{Role: "user"}}},
			problem.BadRequest},
		{"it already exists", "a", Change{}, problem.Changed},
		{"another revision", "a", Change{Revision: 9}, problem.Changed},
		{"it does not exist", "b", Change{Revision: 1}, problem.Changed},
		{"it keeps too many messages", "a", Change{Revision: 1, From: 2}, problem.Changed},
		{"too many messages", "a", Change{Revision: 1, From: 1, Messages: many}, problem.TooLarge},
		{"too long", "a", Change{Revision: 1,
			Messages: []Message{question("1", strings.Repeat("x", maxBytes))}}, problem.TooLarge},
	} {
		if _, err := s.Write(c.id, c.change); codeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
	for _, id := range []string{"", "..", "../a", "A"} {
		if codeOf(second(s.Read(id))) != problem.BadRequest ||
			codeOf(s.Remove(id)) != problem.BadRequest {
			t.Errorf("%q is accepted as an ID", id)
		}
	}
	if codeOf(second(s.Read("none"))) != problem.NotFound || s.Remove("none") != nil {
		t.Error("a missing conversation: want NotFound from Read, and no error from Remove")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 { // the chat and its salt
		t.Errorf("%v", entries)
	}
	if got := mustWrite(t, s, "a",
		Change{Revision: 1, Title: strings.Repeat("é", 999)}); len([]rune(got.Title)) != maxTitle {
		t.Errorf("a title of %d characters", len([]rune(got.Title)))
	}
}

// TestOvertakes: the last write of a closing page succeeds, whether the page's previous write
// arrives before or after it.
func TestOvertakes(t *testing.T) {
	for _, revision := range []int{0, 3} {
		for _, first := range []string{"the previous write", "the last write"} {
			s := openStore(t.TempDir())
			for i := range revision {
				mustWrite(t, s, "a", Change{Revision: i, Title: "before"})
			}
			previous := Change{Revision: revision, Title: "question",
				Messages: []Message{question("1", "one")}}
			last := Change{Revision: revision, Title: "all",
				Messages:  []Message{question("1", "one"), answer("2", "half an answer")},
				Overtakes: true}
			if first == "the last write" {
				mustWrite(t, s, "a", last)
				if code := codeOf(second(s.Write("a", previous))); code != problem.Changed {
					t.Errorf("%d, %s first: the previous write gives %q", revision, first, code)
				}
			} else {
				mustWrite(t, s, "a", previous)
				mustWrite(t, s, "a", last)
			}
			got, err := s.Read("a")
			if err != nil || got.Summary.Revision != revision+2 || got.Summary.Title != "all" ||
				len(got.Messages) != 2 {
				t.Errorf("%d, %s first: %+v, %v", revision, first, got, err)
			}
			if code := codeOf(second(s.Write("a", last))); code != problem.Changed {
				t.Errorf("%d, %s first: repeating the last write gives %q", revision, first, code)
			}
		}
	}
}

// Files with other names, symbolic links and folders are not listed, read or removed.
func TestOtherFiles(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(elsewhere, encode(Chat{Summary: Summary{ID: "link", Revision: 1}}),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README", "UPPER.json", "a b.json", ".json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := openStore(dir)
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	defer func() {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 6 {
			t.Errorf("%v, %v; want 6 entries", entries, err)
		}
	}()
	for _, id := range []string{"link", "folder"} {
		if c, err := s.Read(id); err == nil {
			t.Errorf("%s is read: %+v", id, c)
		}
		if err := s.Remove(id); err == nil {
			t.Errorf("%s is removed", id)
		}
	}
}

// TestDamagedHeader: a conversation with a damaged header, or that is cut off, can be deleted. The
// salt beside it and its noise show that it is a Store's. Other files cannot be deleted.
func TestDamagedHeader(t *testing.T) {
	garbage := func(n int) func([]byte) []byte {
		return func(b []byte) []byte {
			copy(b, bytes.Repeat([]byte("garbage "), n/8))
			return b
		}
	}
	zeros := func(n int) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[:n]); return b }
	}
	image := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), seal.NewKey().Bytes()...)
	for range 64 {
		image = append(image, seal.NewKey().Bytes()...)
	}
	chinese := strings.Repeat("\u6211\u7684\u65e5\u8bb0\u662f\u6211\u7684\u4e8b\u60c5\u3002", 40)
	with := func(text string) func([]byte) []byte {
		return func([]byte) []byte { return []byte(text) }
	}
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		ours   bool
	}{
		"garbage in the header": {garbage(64), true}, "zeros in the header": {zeros(64), true},
		"garbage in the magic": {garbage(8), true}, "zeros": {func(b []byte) []byte {
			clear(b)
			return b
		}, true},
		"a flipped length":   {func(b []byte) []byte { b[30] ^= 0xff; return b }, true},
		"a part of a header": {func(b []byte) []byte { return b[:40] }, true},
		"nothing":            {with(""), true},
		"notes":              {with(strings.Repeat("my notes are text. ", 100)), false},
		"notes in Chinese":   {with(chinese), false}, "an image": {with(string(image)), false},
		"a database":  {with(strings.Repeat("\x00\x01\x05rows of somebody\x00", 60)), false},
		"short noise": {func(b []byte) []byte { return garbage(64)(b)[:100] }, false},
	} {
		for _, salt := range []bool{true, false} {
			dir := filepath.Join(t.TempDir(), "chats")
			s := openStore(dir)
			mustWrite(t, s, "a", Change{Title: "A"})
			data, err := os.ReadFile(s.path("a"))
			if err != nil {
				t.Fatal(err)
			}
			data = c.damage(data)
			if err := os.WriteFile(s.path("a"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			ours := c.ours
			if !salt {
				if err := os.Remove(s.saltPath("a")); err != nil {
					t.Fatal(err)
				}
				ours = bytes.HasPrefix(data, []byte("HRSEAL01"))
			}
			list, err := s.List()
			if err != nil || len(list) != 1 || list[0].Damage == "" {
				t.Errorf("%s, salt %v: %+v, %v", name, salt, list, err)
			}
			if got := IsOurs(s.path("a")); got != ours {
				t.Errorf("%s, salt %v: IsOurs is %v", name, salt, got)
			}
			err = s.Remove("a")
			if left, _ := os.ReadDir(dir); (err == nil) != ours || (len(left) == 0) != ours {
				t.Errorf("%s, salt %v: Remove: %v; %v is left", name, salt, err, left)
			}
		}
	}
}

// TestReplacedFile: something else in the place of a conversation's file is listed as damaged. It
// is neither overwritten nor removed, nor is the conversation's key.
func TestReplacedFile(t *testing.T) {
	text := func(path string) error { return os.WriteFile(path, []byte("my notes"), 0o600) }
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	folder := func(path string) error { return os.Mkdir(path, 0o700) }
	for name, put := range map[string]func(path string) error{"text": text, "pipe": pipe,
		"folder": folder} {
		for _, replaced := range []string{suffix, saltSuffix} {
			dir := t.TempDir()
			s := openStore(dir)
			mustWrite(t, s, "a", Change{Title: "A"})
			if list, err := s.List(); err != nil || len(list) != 1 || list[0].Damage != "" {
				t.Fatalf("%+v, %v", list, err)
			}
			path := filepath.Join(dir, "a"+replaced)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.List()
			if err != nil || len(list) != 1 || list[0].Damage == "" {
				t.Errorf("%s, %s: %+v, %v", name, replaced, list, err)
			}
			if _, err := s.Write("a", Change{Revision: 1}); err == nil {
				t.Errorf("%s, %s: overwritten", name, replaced)
			}
			if err := s.Remove("a"); codeOf(err) != problem.Exists ||
				!strings.Contains(problem.From(err).Why, path) {
				t.Errorf("%s, %s: Remove: %v", name, replaced, err)
			}
			if now, err := os.Lstat(path); err != nil || !os.SameFile(now, before) ||
				now.Size() != before.Size() {
				t.Errorf("%s, %s: now %v, %v", name, replaced, now, err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 2 {
				t.Errorf("%s, %s: %d files, expected 2", name, replaced, len(entries))
			}
		}
	}
}

// TestForeignSalt: a new conversation does not overwrite a file of its salt's name.
func TestForeignSalt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a"+saltSuffix)
	if err := os.WriteFile(path, []byte("my salt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir).Write("a", Change{Title: "A"}); err == nil {
		t.Error("the conversation was written")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "my salt" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestLostSalt: a conversation whose salt has gone is listed as damaged by a running program, too.
func TestLostSalt(t *testing.T) {
	dir := t.TempDir()
	s := openStore(dir)
	mustWrite(t, s, "a", Change{Title: "A"})
	if list, err := s.List(); err != nil || len(list) != 1 || list[0].Damage != "" {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := os.Remove(filepath.Join(dir, "a"+saltSuffix)); err != nil {
		t.Fatal(err)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || list[0].Damage != "its key is missing or was destroyed" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestDamagedParts(t *testing.T) {
	for want, n := range map[string][2]int{"its content is damaged": {1, 1},
		"1 of its 3 parts is damaged": {1, 3}, "2 of its 3 parts are damaged": {2, 3}} {
		if got := damagedParts(n[0], int64(n[1])); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSearch(t *testing.T) {
	s := openStore(t.TempDir())
	mustWrite(t, s, "a", Change{Title: "Lisbon", UpdatedAtUnixMs: 1,
		Messages: []Message{question("1", "A week in Portugal, with  the\ntrain")}})
	mustWrite(t, s, "b", Change{Title: "Cooking", UpdatedAtUnixMs: 2,
		Messages: []Message{question("1",
			strings.Repeat("x ", 50)+"ÄPFEL and a week"+strings.Repeat(" y", 50))}})
	for _, c := range []struct{ text, found, excerpt string }{
		{"", "b a", ""},
		{"  ", "b a", ""},
		{"week", "b a", "…" + strings.Repeat("x ", 14) + "ÄPFEL and a week" +
			strings.Repeat(" y", 20) + "…"},
		{"äpfel WEEK", "b", "…" + strings.Repeat("x ", 20) + "ÄPFEL and a week" +
			strings.Repeat(" y", 14) + "…"},
		{"lisbon", "a", ""},
		{"lisbon train", "a", "A week in Portugal, with the train"},
		{"lisbon äpfel", "", ""},
	} {
		list, err := s.Search(c.text)
		ids := []string{}
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		if err != nil || strings.Join(ids, " ") != c.found {
			t.Errorf("%q: %v, %v, want %s", c.text, ids, err, c.found)
		} else if len(list) > 0 && list[0].Excerpt != c.excerpt {
			t.Errorf("%q: excerpt %q", c.text, list[0].Excerpt)
		}
	}
}

// Version and Subscribe report writes. Version also reports the writes of other programs.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	s, other := openStore(dir), openStore(dir)
	notified, done := s.Subscribe()
	defer done()
	last := s.Version()
	expectNew := func(what string, want bool) {
		t.Helper()
		if now := s.Version(); (now != last) != want {
			t.Errorf("%s: version %d after %d", what, now, last)
		} else {
			last = now
		}
	}
	expectNew("before any write", false)
	mustWrite(t, s, "a", Change{})
	expectNew("a write", true)
	expectNew("no further write", false)
	select {
	case <-notified:
	default:
		t.Error("the subscriber was not notified")
	}
	earlier := time.Unix(1, 0) // so that a coarse clock shows a difference
	if err := os.Chtimes(dir, earlier, earlier); err != nil {
		t.Fatal(err)
	}
	last = s.Version()
	first := mustWrite(t, other, "b", Change{Title: "b"})
	expectNew("another program's write", true)
	titles := func() (all string) {
		list, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			all += one.Title + ","
		}
		return all
	}
	before := titles()
	renamed := mustWrite(t, other, "b",
		Change{Revision: 1, Title: "c", UpdatedAtUnixMs: first.UpdatedAtUnixMs})
	if err := os.Chtimes(renamed.Path, earlier, earlier); err != nil {
		t.Fatal(err)
	}
	if after := titles(); after == before || !strings.Contains(after, "c,") {
		t.Errorf("titles %q after %q", after, before)
	}
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	expectNew("a removal", true)
}

// FuzzParse: a parsed conversation stays the same when it is written and parsed again.
func FuzzParse(f *testing.F) {
	whole := encode(Chat{Summary: Summary{ID: "a", Title: "T", UpdatedAtUnixMs: 5, Revision: 2},
		Messages: []Message{question("1", "one"), answer("2", "two")}})
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte("{}\n[]\n\x00"))
	f.Add([]byte(`{"version":1,"id":"a","revision":1,"messages":-1,"bodyBytes":0}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := parse(data, "a")
		if c.Summary.Damage != "" {
			c.Summary.Revision = max(c.Summary.Revision, 1)
		}
		again := parse(encode(c), "a")
		c.Summary.Damage = ""
		if c.Summary != again.Summary ||
			!reflect.DeepEqual(plain(t, c.Messages), plain(t, again.Messages)) {
			t.Errorf("%+v\nbecame\n%+v", c, again)
		}
	})
}

// plain formats a value as JSON, where empty and missing lists are the same.
func plain(t *testing.T, v any) (out any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
