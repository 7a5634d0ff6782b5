package commands

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"headroom/app/batches"
	"headroom/app/cache"
	"headroom/app/control"
	"headroom/app/library"
	"headroom/app/logs"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/app/stored"
	"headroom/app/vault"
	"headroom/engine/seal"
	"headroom/engine/tokenizer"
)

// scenario is a server in a home folder of its own, with a model in a worker process.
type scenario struct {
	*testing.T
	home string
	s    *service.Service
	end  func()
}

func (c *scenario) begin() {
	c.Helper()
	c.beginWith(CacheFlags{})
}

func (c *scenario) beginWith(flagged CacheFlags) {
	c.Helper()
	flagged.BlockSSDCacheMinFree = settings.Unlimited
	flags := ModelFlags{Device: "cpu", Threads: 1, Context: 8192, CacheFlags: flagged}
	o := flags.ServiceOptions(ServiceUse{})
	o.Listen, o.Logs = "127.0.0.1", logs.New(0)
	s, err := service.New(o)
	if err != nil {
		c.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(c.Context()) }()
	if err := errors.Join(s.Host.Start(""), s.Host.Wait(c.Context())); err != nil {
		c.Fatal(err)
	}
	c.s, c.end = s, func() { s.Close(); <-served }
}

// send sends a request with the token and returns the status and the body.
func (c *scenario) send(method, path, body string) (status int, text string) {
	c.Helper()
	r, _ := http.NewRequestWithContext(c.Context(), method, "http://"+c.s.Address+path,
		strings.NewReader(body))
	r.Header.Set(control.TokenHeader, c.s.Token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Error(err) // not Fatal, because goroutines call it
		return 0, ""
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	if err != nil && method == http.MethodGet {
		c.Fatal(err)
	}
	return got.StatusCode, string(data)
}

func (c *scenario) must(method, path, body string) string {
	c.Helper()
	status, text := c.send(method, path, body)
	if status >= 300 {
		c.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// complete sends a prompt longer than a block that contains words.
func (c *scenario) complete(words, fields string) {
	c.Helper()
	prompt, _ := json.Marshal(strings.Repeat(words+" are kept for each token. ", 60))
	c.must(http.MethodPost, "/v1/completions",
		`{"max_tokens":3,"prompt":`+string(prompt)+fields+"}")
}

// files returns the content of every file under home, by path.
func (c *scenario) files() map[string][]byte {
	c.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(c.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		all[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return all
}

// holders returns the files that have the words as text or as tokens, in any of the encodings that
// a program would choose.
func (c *scenario) holders(words string) (paths []string) {
	c.Helper()
	model, err := c.s.Host.Acquire("")
	if err != nil {
		c.Fatal(err)
	}
	tokens := model.Engine.Tokenizer().Encode(" "+words, tokenizer.EncodeOptions{})
	var forms [][]byte
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var wide, long []byte
		for _, id := range tokens[1 : len(tokens)-1] { // the edges may join other text
			wide, long = order.AppendUint32(wide, uint32(id)), order.AppendUint64(long, uint64(id))
		}
		forms = append(forms, wide, long)
	}
	forms = append(forms, []byte(words), []byte(strings.ToLower(words)))
	for path, data := range c.files() {
		for _, form := range forms {
			if bytes.Contains(data, form) {
				paths = append(paths, path)
				break
			}
		}
	}
	return paths
}

const (
	marker  = "Zanzibar quixotic marzipan"
	private = "Wolfgang byzantine kumquat"
)

// use does everything that a person can do: chats, requests, an import, a download, settings.
func (c *scenario) use() {
	c.Helper()
	from := demoFolder(c.T, filepath.Join(c.T.TempDir(), "mine"))
	c.Setenv("HF_ENDPOINT", demoHub(c.T, nil))
	for _, args := range [][]string{{"models", "import", from},
		{"models", "download", "demo/model"}, {"run", "--block-ssd-cache-dir",
			filepath.Join(c.T.TempDir(), "cache"), "What is 76 - 27?"}} {
		if code, _, errOut := headroom("", args...); code != 0 {
			c.Fatal(args, errOut)
		}
	}
	// The pairing fails after this machine has got a certificate.
	if code, _, errOut := headroom("", "pair", "12345678@127.0.0.1:1"); code != 1 {
		c.Fatal(errOut)
	}
	c.begin()
	c.must(http.MethodPut, "/control/chats/one", `{"revision":0,"title":"`+marker+
		`","from":0,"messages":[{"id":"1","role":"user","content":"`+marker+`"}]}`)
	c.complete(marker, "")
	c.complete(private, `,"cache":"memory"`)
	c.must(http.MethodPost, "/v1/responses",
		`{"input":"`+private+`","max_output_tokens":3,"cache":"memory"}`)
	c.must(http.MethodPost, "/v1/chat/completions",
		`{"max_tokens":3,"store":false,"messages":[{"role":"user","content":"`+private+`"}]}`)
	c.send(http.MethodPost, "/v1/chat/completions",
		`{"store":false,"messages":[{"role":"`+private+`","content":""}]}`)
	c.useBatch()
	c.must(http.MethodPut, "/control/settings", `{"apiKey":"","idleUnloadMinutes":30}`)
	c.useKey()
	log := c.must(http.MethodGet, "/control/logs?level=debug", "")
	if strings.Contains(log, private) {
		c.Error("the log quotes a private request")
	}
	c.end() // writes the ends of conversations
}

// useBatch uploads a file of requests and waits until they are answered.
func (c *scenario) useBatch() {
	c.Helper()
	const form = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\n" +
		"Content-Disposition: form-data; name=\"file\"; filename=\"" + private + "\"\r\n\r\n" +
		`{"custom_id":"1","url":"/v1/completions","body":{"prompt":"` + private +
		`","max_tokens":2}}` + "\r\n--b--\r\n"
	r, _ := http.NewRequestWithContext(c.Context(), http.MethodPost,
		"http://"+c.s.Address+"/v1/files", strings.NewReader(form))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer got.Body.Close()
	var made batches.File
	if err := json.NewDecoder(got.Body).Decode(&made); err != nil || made.ID == "" {
		c.Fatal(got.Status, err)
	}
	var batch batches.Batch
	text := c.must(http.MethodPost, "/v1/batches", `{"input_file_id":"`+made.ID+
		`","endpoint":"/v1/completions","completion_window":"24h"}`)
	for batch.CompletedAt == nil {
		if err := json.Unmarshal([]byte(text), &batch); err != nil || batch.FailedAt != nil {
			c.Fatal(text, err)
		}
		text = c.must(http.MethodGet, "/v1/batches/"+batch.ID, "")
	}
	if batch.RequestCounts.Completed != 1 {
		c.Errorf("the batch: %s", text)
	}
}

// useKey makes an API key and sends a request with it.
func (c *scenario) useKey() {
	c.Helper()
	var made control.NewAPIKey
	text := c.must(http.MethodPost, "/control/keys", `{"name":"laptop"}`)
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		c.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(c.Context(), http.MethodPost,
		"http://"+c.s.Address+"/v1/completions", strings.NewReader(`{"prompt":"a","max_tokens":1}`))
	r.Header.Set("X-Api-Key", made.Text)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer got.Body.Close()
	if _, err = io.Copy(io.Discard, got.Body); err != nil || got.StatusCode != http.StatusOK {
		c.Fatal(got.Status, err)
	}
}

// TestPrivacyTable uses a new home folder, and looks for every file in the table of PRIVACY.md.
// Files of which it says that only the user can read them must have such modes. Of private requests
// nothing is left.
func TestPrivacyTable(t *testing.T) {
	c := &scenario{T: t, home: isolate(t)}
	c.use()
	c.begin()
	defer c.end()
	table := privacyTable(t)
	for path := range c.files() {
		row := -1
		for i := range table {
			if table[i].matches(c.home, path) {
				row = i
			}
		}
		if row < 0 {
			t.Errorf("%s is not in PRIVACY.md", path)
			continue
		}
		info, err := os.Stat(path)
		if err != nil || table[row].reader == "you" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, and PRIVACY.md says that only you can read it; %v", path,
				info.Mode(), err)
		}
	}
	if paths := c.holders(private); len(paths) > 0 {
		t.Errorf("a private request is in %q", paths)
	}
	if sizes, text := 0, c.must(http.MethodGet, "/control/stored", ""); true {
		var list stored.List
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Items {
			if one.Files > 0 {
				sizes++
			}
		}
		if sizes < 6 {
			t.Errorf("stored: %s, expected chats, cache, log, settings, keys and models", text)
		}
	}
}

// privacyRow is a row of the table in PRIVACY.md.
type privacyRow struct {
	what, reader string
	path         *regexp.Regexp // below the home folder
}

func (r privacyRow) matches(home, path string) bool {
	rel, err := filepath.Rel(home, path)
	return err == nil && r.path.MatchString(rel)
}

func privacyTable(t *testing.T) (rows []privacyRow) {
	t.Helper()
	text, err := os.ReadFile("../PRIVACY.md")
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile("`~/([^`]*)`")
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 5 || !strings.Contains(cells[1], "`~/") {
			continue
		}
		pattern := place.FindStringSubmatch(cells[1])[1]
		for from, to := range map[string]string{".config/": "config/", ".cache/h": "cache/h",
			".local/share/": "data/"} { // as isolate sets them
			if rest, ok := strings.CutPrefix(pattern, from); ok &&
				!strings.HasPrefix(rest, "uggingface") {
				pattern = to + rest
			}
		}
		quoted := regexp.QuoteMeta(pattern)
		quoted = strings.ReplaceAll(quoted, `\*\*`, `.+`)
		quoted = strings.ReplaceAll(quoted, `\*`, `[^/]*`)
		rows = append(rows, privacyRow{strings.TrimPrefix(cells[0], "| "), cells[3],
			regexp.MustCompile("^" + quoted + "$")})
	}
	if len(rows) < 10 {
		t.Fatalf("%d rows in PRIVACY.md, expected at least 10", len(rows))
	}
	return rows
}

// TestDeleteInterrupted stops Delete everything where a kill can stop it, then starts a server, as
// a person would, and deletes everything again. Nothing may be left, and the server goes on.
func TestDeleteInterrupted(t *testing.T) {
	c := &scenario{T: t, home: isolate(t)}
	settingsDir, err := control.SettingsDir()
	if err != nil {
		t.Fatal(err)
	}
	key, chat := filepath.Join(settingsDir, "key"), filepath.Join(library.Data(), "chats", "one")
	dir := cache.DefaultDir()
	wipe := func(path string) func() error {
		return func() error { return seal.OverwriteFile(path) }
	}
	remove := func(path string) func() error { return func() error { return os.Remove(path) } }
	// The steps of a deletion, as data.erase takes them.
	steps := []func() error{wipe(key), remove(key), remove(chat + ".chat"), wipe(chat + ".salt"),
		remove(chat + ".salt"), wipe(filepath.Join(dir, "keys.headroom")),
		remove(filepath.Join(dir, "keys.headroom"))}
	for n := range len(steps) + 1 {
		c.begin()
		c.must(http.MethodPut, "/control/chats/one", `{"revision":0,"title":"`+marker+
			`","from":0,"messages":[{"id":"1","role":"user","content":"`+marker+`"}]}`)
		c.complete(marker, "")
		c.end()
		for i, step := range steps[:n] {
			if err := step(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		c.begin()
		response := c.must(http.MethodPost, "/v1/responses",
			`{"input":"`+marker+`","max_output_tokens":3}`)
		_, id, _ := strings.Cut(response, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		c.must(http.MethodGet, "/v1/responses/"+id, "")
		var deleted stored.Deleted
		text := c.must(http.MethodPost, "/control/stored/delete", `{"everything":true}`)
		if status, text := c.send(http.MethodGet, "/v1/responses/"+id, ""); status != 404 {
			t.Errorf("after everything was deleted, there is a response: %d %s", status, text)
		}
		if err := json.Unmarshal([]byte(text), &deleted); err != nil || len(deleted.Left) > 0 {
			t.Errorf("after %d steps: %s, %v", n, text, err)
		}
		for _, one := range c.s.Stored().Items {
			if one.Kind == stored.Chats && one.Files > 0 {
				t.Errorf("after %d steps: %d files of chats are left", n, one.Files)
			}
		}
		if err := errors.Join(c.s.Host.Start(""), c.s.Host.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if paths := c.holders(marker); len(paths) > 0 {
			t.Errorf("after %d steps: left in %q", n, paths)
		}
		if s := c.s.Host.State().Cache; s.Error != "" || !s.On {
			t.Errorf("after %d steps: the cache is on: %v, %s", n, s.On, s.Error)
		}
		c.must(http.MethodPut, "/control/chats/two", `{"revision":0,"title":"","from":0,"messages":[]}`)
		c.end()
		if code, _, errOut := headroom("", "stored", "delete", "--yes"); code != 0 {
			t.Fatal(errOut)
		}
	}
}

// TestDeleteEverything deletes everything while a request runs, and reads every byte that is left.
func TestDeleteEverything(t *testing.T) {
	c := &scenario{T: t, home: isolate(t)}
	c.use()
	c.begin()
	if len(c.holders(marker)) == 0 && len(c.s.Stored().Items) == 0 {
		t.Fatal("nothing is stored")
	}
	if k := listKeys(t)["laptop"]; k.Requests != 1 || k.GeneratedTokens != 1 {
		t.Errorf("the API key was not used: %+v", k)
	}
	foreign := []string{filepath.Join(c.s.Host.State().Cache.Dir, "notes.txt"),
		filepath.Join(c.s.Host.State().Cache.Dir, "tmp", "report.docx"),
		filepath.Join(library.Data(), "chats", "letter.json"),
		filepath.Join(library.Own(), "thesis", "config.json"),
		filepath.Join(c.home, "config", "headroom", "settings.json.damaged-old")}
	for _, path := range foreign {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	before := len(c.files())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // requests before, while and after everything is deleted
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			c.send(http.MethodPost, "/v1/completions",
				`{"max_tokens":500,"stream":true,"cache":"memory","prompt":"`+marker+`"}`)
		}
	}()
	for len(c.s.Host.State().Requests) == 0 {
		runtime.Gosched()
	}
	if status, text := c.send(http.MethodPost, "/control/stored/delete", `{}`); status != 400 {
		t.Errorf("without a confirmation: %d %s", status, text)
	}
	code, out, errOut := headroom("", "stored", "delete", "--settings", "--models")
	if code != 1 || !strings.Contains(errOut, "--yes") || len(c.files()) < before {
		t.Errorf("without --yes: exit %d, %s %s", code, out, errOut)
	}
	code, out, errOut = headroom("", "stored", "delete", "--yes", "--settings", "--models")
	// Nothing is left but the folder that is no model.
	if code != 1 || !strings.HasPrefix(out, "Deleted ") || strings.Count(errOut, "why: ") != 1 ||
		!strings.Contains(errOut, "why: The folder "+filepath.Join(library.Own(), "thesis")) ||
		strings.Contains(errOut, "could not") {
		t.Errorf("exit %d, %s %s", code, out, errOut)
	}
	close(stop)
	<-stopped
	if status, text := c.send(http.MethodPut, "/control/chats/one",
		`{"revision":1,"title":"x","from":1,"messages":[]}`); status != http.StatusNotFound {
		t.Errorf("a page saves a deleted chat again: %d %s", status, text)
	}
	if err := errors.Join(c.s.Host.Start(""), c.s.Host.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{marker, private} {
		if paths := c.holders(words); len(paths) > 0 {
			t.Errorf("%q is still in %q", words, paths)
		}
	}
	for _, path := range foreign {
		if text, err := os.ReadFile(path); string(text) != "mine" {
			t.Errorf("%s of somebody else: %q, %v", path, text, err)
		}
	}
	if file := service.OpenSettings().Get(); file.IdleUnloadMinutes != 0 {
		t.Error("the settings were not reset")
	}
	if k := listKeys(t)["laptop"]; k.ID == "" || k.Requests != 0 || k.PromptTokens != 0 ||
		k.LastUsedAtUnixMs != 0 {
		t.Errorf("the API key is gone, or has a usage: %+v", k)
	}
	c.complete(marker, "") // the server goes on
	dir := c.s.Host.State().Cache.Dir
	c.end()
	settingsDir, _ := control.SettingsDir()
	key, err := vault.Open(settingsDir).Key() // of the next process
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.ExportKey(dir, key); err != nil {
		t.Errorf("what was cached afterwards cannot be read after a restart: %v", err)
	}
	if code, out, errOut := headroom("", "stored", "delete", "--yes"); code != 0 {
		t.Errorf("without a server: exit %d, %s %s", code, out, errOut)
	}
	if code, out, _ := headroom("", "stored"); code != 0 ||
		!regexp.MustCompile(`cache on SSD +0 files`).MatchString(out) ||
		!regexp.MustCompile(`files and batches +0 files`).MatchString(out) {
		t.Errorf("exit %d, %s", code, out)
	}
}

// TestDeleteInEveryFolder: "Delete everything" finds the cache of another run whose folder only a
// flag named, and the caches of several servers.
func TestDeleteInEveryFolder(t *testing.T) {
	home := isolate(t)
	dir := filepath.Join(t.TempDir(), "flagged")
	one, other := &scenario{T: t, home: home}, &scenario{T: t, home: home}
	deleteAll := func(servers int) {
		t.Helper()
		code, out, errOut := headroom("", "stored")
		if code != 0 || !strings.Contains(out, dir) {
			t.Errorf("%d servers: exit %d, %s %s", servers, code, out, errOut)
		}
		if code, _, errOut := headroom("", "stored", "delete", "--yes"); code != 0 {
			t.Errorf("%d servers: exit %d, %s", servers, code, errOut)
		}
	}
	gone := func(what string) {
		t.Helper()
		if entries, _ := filepath.Glob(filepath.Join(dir, "blocks", "*", "*")); len(entries) > 0 {
			t.Errorf("%s: %q are left", what, entries)
		}
	}
	use := func(c *scenario) {
		t.Helper()
		c.complete(marker, "")
		c.end()
		if entries, _ := filepath.Glob(filepath.Join(dir, "blocks", "*", "*")); len(entries) == 0 {
			t.Error("nothing was cached")
		}
	}
	other.beginWith(CacheFlags{BlockSSDCacheDir: dir})
	use(other)
	deleteAll(0)
	gone("without a server")
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is left")
	}
	other.beginWith(CacheFlags{BlockSSDCacheDir: dir})
	use(other)
	one.begin()
	deleteAll(1)
	gone("with a server that has another folder")
	other.beginWith(CacheFlags{BlockSSDCacheDir: dir})
	for range 2 { // the second time, a prefix is likely to be read again
		other.complete(marker, "")
		one.complete(marker, "")
	}
	deleteAll(2)
	gone("with two servers")
	other.end()
	gone("when they have ended")
	one.end()
}
