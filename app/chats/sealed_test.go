package chats

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/engine/problem"
	"headroom/engine/seal"
)

// secretWords are in titles and messages of these tests, and must not be in any file.
const secretWords = "the password is hunter2"

func secretChat(revision int) Change {
	return Change{Revision: revision, Title: secretWords + " in the title",
		Messages: []Message{question("1", secretWords), answer("2", "so "+secretWords)}}
}

// folder returns the content of every file in a folder.
func folder(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		var text []byte
		text, err = os.ReadFile(filepath.Join(dir, e.Name()))
		files[e.Name()] = text
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func restore(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// expectNoWords fails if the secret words are in a file.
func expectNoWords(t testing.TB, dir string) {
	t.Helper()
	for name, text := range folder(t, dir) {
		if bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("%s has the words of the conversation", name)
		}
	}
}

func TestNothingInPlainText(t *testing.T) {
	dir := t.TempDir()
	s := openStore(dir)
	mustWrite(t, s, "a", secretChat(0))
	mustWrite(t, s, "a", secretChat(1))
	expectNoWords(t, dir)
	if c, err := s.Read("a"); err != nil || c.Messages[1].Content != "so "+secretWords {
		t.Errorf("%+v, %v", c, err)
	}
	if found, err := s.Search("HUNTER2"); err != nil || len(found) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestLocked: without the key nothing is read, written or deleted. An empty folder needs none.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openStore(dir), "a", secretChat(0))
	plain := encode(Chat{Summary: Summary{ID: "b", Revision: 1, Messages: 1},
		Messages: []Message{question("1", "x")}})
	restore(t, dir, map[string][]byte{"b.json": plain, "c.salt": make([]byte, 32),
		"c.chat": []byte("x")})
	before := folder(t, dir)
	asked := 0
	locked := func() (seal.Key, error) {
		asked++
		return seal.Key{}, problem.New(problem.Locked, "The keychain is locked", "", "")
	}
	s := Open(dir, locked)
	for what, err := range map[string]error{"list": second(s.List()), "read": second(s.Read("a")),
		"search": second(s.Search("x")), "remove": s.Remove("a"), "remove plain": s.Remove("b"),
		"write": second(s.Write("a", secretChat(1))), "new": second(s.Write("n", secretChat(0)))} {
		if codeOf(err) != problem.Locked {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := folder(t, dir); !reflect.DeepEqual(after, before) {
		t.Errorf("the folder has changed: %d files, before %d", len(after), len(before))
	}
	asked = 0
	empty := Open(t.TempDir(), locked)
	if list, err := empty.List(); err != nil || len(list) != 0 || asked > 0 {
		t.Errorf("an empty folder: %v, %v, asked %d times", list, err, asked)
	}
	if err := empty.Remove("a"); err != nil || codeOf(second(empty.Read("a"))) != problem.NotFound {
		t.Errorf("a missing conversation: %v", err)
	}
}

// TestAnotherKey: what was encrypted with another key is listed as such and never overwritten.
func TestAnotherKey(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openStore(dir), "a", secretChat(0))
	before := folder(t, dir)
	other := seal.NewKey()
	s := Open(dir, func() (seal.Key, error) { return other, nil })
	list, err := s.List()
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Damage, "another key") {
		t.Errorf("%+v, %v", list, err)
	}
	for revision := range 3 {
		if code := codeOf(second(s.Write("a", secretChat(revision)))); code != problem.Changed {
			t.Errorf("a write on revision %d: %q", revision, code)
		}
	}
	if after := folder(t, dir); !reflect.DeepEqual(after, before) {
		t.Error("the file has changed")
	}
}

// TestChangedBytes changes every byte of a conversation's files. What is read then is marked as
// damaged, and never has other words than were written.
func TestChangedBytes(t *testing.T) {
	dir := t.TempDir()
	s := openStore(dir)
	words := map[string]bool{}
	c := Change{Title: "T"}
	for i := range 30 { // three chunks
		m := question(strconv.Itoa(i), strings.Repeat(strconv.Itoa(i)+" ", 300))
		words[m.Content] = true
		c.Messages = append(c.Messages, m)
	}
	mustWrite(t, s, "a", c)
	right := folder(t, dir)
	check := func(what string) (readable int) {
		t.Helper()
		got, err := s.Read("a")
		if err != nil || got.Summary.Damage == "" {
			t.Fatalf("%s: damage %q, %v", what, got.Summary.Damage, err)
		}
		for _, m := range got.Messages {
			if !words[m.Content] {
				t.Fatalf("%s: a message that was never written: %.80q", what, m.Content)
			}
		}
		return len(got.Messages)
	}
	most := 0
	for name, text := range right {
		step := 1 + len(text)/400
		for i := 0; i < len(text); i += step {
			wrong := bytes.Clone(text)
			wrong[i] ^= 0x20
			restore(t, dir, map[string][]byte{name: wrong})
			most = max(most, check(fmt.Sprintf("byte %d of %s", i, name)))
		}
		for n := 0; n < len(text); n += step {
			restore(t, dir, map[string][]byte{name: text[:n]})
			check(fmt.Sprintf("%s cut to %d bytes", name, n))
		}
		restore(t, dir, right)
	}
	if most < 10 {
		t.Errorf("at most %d of 30 messages could be read", most)
	}
	if got, err := s.Read("a"); err != nil || got.Summary.Damage != "" || len(got.Messages) != 30 {
		t.Errorf("the unchanged files: %+v, %v", got.Summary, err)
	}
}

// TestExchanged: a conversation under another's name does not open, with or without its salt.
func TestExchanged(t *testing.T) {
	dir := t.TempDir()
	s := openStore(dir)
	mustWrite(t, s, "a", secretChat(0))
	mustWrite(t, s, "b", secretChat(0))
	right := folder(t, dir)
	for _, names := range [][]string{{".chat"}, {".chat", ".salt"}, {".salt"}} {
		for _, ext := range names {
			restore(t, dir, map[string][]byte{"a" + ext: right["b"+ext]})
		}
		if c, err := s.Read("a"); err != nil || c.Summary.Damage == "" || len(c.Messages) > 0 {
			t.Errorf("%v: %+v, %v", names, c, err)
		}
		restore(t, dir, right)
	}
}

// TestForgotten: after a deletion, old copies of the conversation's file are noise, even with the
// installation's key. The same ID can be used again.
func TestForgotten(t *testing.T) {
	dir := t.TempDir()
	s := openStore(dir)
	mustWrite(t, s, "a", secretChat(0))
	mustWrite(t, s, "kept", secretChat(0))
	salt := filepath.Join(dir, "a.salt")
	if err := os.Link(salt, salt+"-inode"); err != nil { // sees what is written over the salt
		t.Fatal(err)
	}
	old := folder(t, dir)["a.chat"]
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(salt + "-inode"); err != nil || len(b) != seal.KeyBytes || !isZero(b) {
		t.Errorf("the salt was not overwritten: %x, %v", b, err)
	}
	for name := range folder(t, dir) {
		if strings.HasPrefix(name, "a.") && !strings.HasSuffix(name, "-inode") {
			t.Errorf("%s is left", name)
		}
	}
	restore(t, dir, map[string][]byte{"a.chat": old})
	if c, err := s.Read("a"); err != nil || c.Summary.Damage == "" || len(c.Messages) > 0 {
		t.Errorf("the old file opens: %+v, %v", c, err)
	}
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, s, "a", secretChat(0)) // the page's Undo
	if c, err := s.Read("a"); err != nil || len(c.Messages) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	restore(t, dir, map[string][]byte{"a.chat": old})
	if c, err := s.Read("a"); err != nil || c.Summary.Damage == "" {
		t.Errorf("the old file opens with the new salt: %+v, %v", c, err)
	}
	if c, err := s.Read("kept"); err != nil || len(c.Messages) != 2 {
		t.Errorf("the other conversation: %+v, %v", c, err)
	}
}

// TestInterruptedDeletion: a deletion that a crash interrupted is finished.
func TestInterruptedDeletion(t *testing.T) {
	for _, gone := range [][]string{{}, {"a.chat"}, {"a.json"}, {"a.chat", "a.json"}} {
		dir := t.TempDir()
		s := openStore(dir)
		mustWrite(t, s, "a", secretChat(0))
		restore(t, dir, map[string][]byte{"a.salt": make([]byte, seal.KeyBytes),
			"a.json": encode(Chat{Summary: Summary{ID: "a", Revision: 1}})})
		for _, name := range gone {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		s = openStore(dir)
		if list, err := s.List(); err != nil || len(list) != 0 {
			t.Errorf("without %v: %+v, %v", gone, list, err)
		}
		mustWrite(t, s, "a", secretChat(0))
		if c, err := s.Read("a"); err != nil || c.Summary.Damage != "" {
			t.Errorf("without %v: written again: %+v, %v", gone, c, err)
		}
	}
}

// TestMigration: a conversation of an earlier Headroom is encrypted, from every state in which a
// crash can leave the folder.
func TestMigration(t *testing.T) {
	sealed := t.TempDir()
	mustWrite(t, openStore(sealed), "a", secretChat(0))
	whole := folder(t, sealed)
	c, err := openStore(sealed).Read("a")
	if err != nil {
		t.Fatal(err)
	}
	plain := encode(c)
	later := c
	later.Summary.Revision, later.Summary.Title = 7, "later "+secretWords
	for name, files := range map[string]map[string][]byte{
		"plain":           {"a.json": plain},
		"a salt":          {"a.json": plain, "a.salt": whole["a.salt"]},
		"half a salt":     {"a.json": plain, "a.salt": whole["a.salt"][:9]},
		"both":            {"a.json": plain, "a.salt": whole["a.salt"], "a.chat": whole["a.chat"]},
		"a temporary one": {"a.json": plain, ".a.chat123": whole["a.chat"][:99]},
		"a later plain one": {"a.json": encode(later), "a.salt": whole["a.salt"],
			"a.chat": whole["a.chat"]},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			restore(t, dir, files)
			s := openStore(dir)
			want := 1
			if name == "a later plain one" {
				want = 7
			}
			list, err := s.List()
			if err != nil || len(list) != 1 || list[0].Revision != want || list[0].Damage != "" {
				t.Fatalf("%+v, %v", list, err)
			}
			if got, err := s.Read("a"); err != nil || len(got.Messages) != 2 ||
				!reflect.DeepEqual(got.Messages, c.Messages) {
				t.Errorf("%+v, %v", got, err)
			}
			expectNoWords(t, dir)
			if _, err := os.Stat(filepath.Join(dir, "a.json")); err == nil {
				t.Error("the plain file is left")
			}
			mustWrite(t, s, "a", secretChat(want))
		})
	}
	// What cannot be encrypted safely stays.
	for name, files := range map[string]map[string][]byte{
		"a damaged plain file": {"a.json": plain[:len(plain)-4]},
		"a damaged encrypted file": {"a.json": plain, "a.salt": whole["a.salt"],
			"a.chat": whole["a.chat"][:70]},
	} {
		dir := t.TempDir()
		restore(t, dir, files)
		got, err := openStore(dir).Read("a")
		if err != nil || len(got.Messages) == 0 || !reflect.DeepEqual(folder(t, dir), files) {
			t.Errorf("%s: %+v, %v, files %d", name, got, err, len(folder(t, dir)))
		}
	}
}

// Environment variable of the child process of TestKill: its folder.
const killDir = "HEADROOM_CHATS_KILL"

// TestKillChild is the child process of TestKill. It migrates, writes and removes conversations,
// one for each byte of its standard input. It reports each before it begins and once it is done.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("the child of TestKill")
	}
	s := openStore(dir)
	for i := 0; ; i++ {
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
			return
		}
		id := fmt.Sprintf("c-%d", i%5)
		old, err := s.Read(id)
		if err != nil && codeOf(err) != problem.NotFound {
			t.Fatal(err)
		}
		if i%7 == 6 {
			fmt.Printf("removing %s 0\n", id)
			err = s.Remove(id)
			fmt.Printf("removed %s 0\n", id)
		} else {
			r := old.Summary.Revision
			fmt.Printf("writing %s %d\n", id, r+1)
			_, err = s.Write(id, Change{Revision: r, Title: secretWords,
				Messages: []Message{question("1", strings.Repeat(secretWords, 700))}})
			fmt.Printf("wrote %s %d\n", id, r+1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestKill kills a program that uses the folder. Nothing that it has reported as written is lost,
// and nothing that it has reported as removed comes back.
func TestKill(t *testing.T) {
	rounds := 12
	if os.Getenv("HEADROOM_LONG") != "" {
		rounds = 200
	} else if testing.Short() {
		rounds = 3
	}
	dir := t.TempDir()
	for i := range 5 {
		id := fmt.Sprintf("c-%d", i)
		restore(t, dir, map[string][]byte{id + plainSuffix: encode(Chat{
			Summary: Summary{ID: id, Title: secretWords, Revision: 1}})})
	}
	for round := range rounds {
		before := map[string]int{}
		list, err := openStore(dir).List()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			before[one.ID] = one.Revision
		}
		child := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
		child.Env = append(os.Environ(), killDir+"="+dir)
		out, err := child.StdoutPipe()
		in, inErr := child.StdinPipe()
		if err = errors.Join(err, inErr); err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		pending := ""
		lines := bufio.NewScanner(out)
		for n := 1 + round*7%40; n > 0; n-- {
			if _, err := in.Write([]byte{0}); err != nil {
				t.Fatal(err)
			}
			pending = says(t, lines)[1]
			if n == 1 { // killed meanwhile, after a random time
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
				break
			}
			done := says(t, lines)
			before[pending], _ = strconv.Atoi(done[2])
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		s := openStore(dir)
		for id, revision := range before {
			got, err := s.Read(id)
			now := got.Summary.Revision
			switch {
			case err != nil && codeOf(err) != problem.NotFound:
				t.Fatal(err)
			case got.Summary.Damage != "":
				t.Errorf("round %d: %s: %s", round, id, got.Summary.Damage)
			case now != revision && (id != pending || now != 0 && now != revision+1):
				t.Errorf("round %d: %s has revision %d, expected %d", round, id, now, revision)
			}
		}
		expectNoWords(t, dir)
	}
}

// says returns the words of the child's next line.
func says(t *testing.T, lines *bufio.Scanner) []string {
	t.Helper()
	lines.Scan()
	words := strings.Fields(lines.Text())
	if len(words) != 3 {
		t.Fatalf("the child said %q", lines.Text())
	}
	return words
}

// FuzzOpenFile checks that no file causes a panic, and that only the file that was written opens
// without damage.
func FuzzOpenFile(f *testing.F) {
	dir := f.TempDir()
	s := openStore(dir)
	k := mustKeys(f, s)
	if err := s.replace(k, "a", []byte("one\ntwo\n")); err != nil {
		f.Fatal(err)
	}
	right := folder(f, dir)["a.chat"]
	f.Add(right, int64(len(right)))
	f.Add(right[:70], int64(len(right)))
	f.Add(right[:seal.HeaderBytes], int64(len(right)))
	f.Add(append(slices.Clone(right), 0), int64(len(right)))
	f.Add([]byte("{}\n"), int64(3))
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		text, _, damage := k.open(slices.Clone(data), "a", size)
		if whole := bytes.Equal(data, right) && size == int64(len(right)); (damage == "") != whole {
			t.Errorf("%q, damage %q", text, damage)
		}
	})
}
