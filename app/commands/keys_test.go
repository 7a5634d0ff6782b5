package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/app/control"
	"headroom/app/keys"
)

// sendWith sends a request with an API key, and no token.
func (s *serverProcess) sendWith(key, method, path, body string) (status int, header http.Header,
	text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+path,
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(data)
}

// addKey makes a key by the command and returns its text.
func addKey(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := headroom("", append([]string{"keys", "add"}, args...)...)
	text := strings.TrimSuffix(out, "\n")
	if code != 0 || !strings.HasPrefix(text, "hr-") || strings.Contains(text, "\n") ||
		strings.Contains(errOut, text) {
		t.Fatalf("%q: exit %d, %q, %s", args, code, out, errOut)
	}
	return text
}

// listKeys returns what `headroom keys list` prints as JSON, by name.
func listKeys(t *testing.T) map[string]control.APIKey {
	t.Helper()
	code, out, errOut := headroom("", "keys", "list", "--json")
	var list control.APIKeyList
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	byName := map[string]control.APIKey{}
	for _, k := range list.Keys {
		byName[k.Name] = k
	}
	return byName
}

// TestKeysOfAFolder: a key may be limited to a model in a folder that a flag names.
func TestKeysOfAFolder(t *testing.T) {
	root := filepath.Join(isolate(t), "elsewhere")
	if err := os.MkdirAll(filepath.Join(root, "org", "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "org", "m", "config.json"), []byte(`{}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := headroom("", "keys", "add", "x", "--model", "org/m"); code != 1 ||
		!strings.Contains(errOut, "--models-dir") {
		t.Errorf("without the folder: exit %d, %s", code, errOut)
	}
	addKey(t, "added", "--model", "m", "--models-dir", root)
	addKey(t, "set")
	if code, _, errOut := headroom("", "keys", "set", "set", "--model", "m", "--models-dir",
		root); code != 0 {
		t.Errorf("set: exit %d, %s", code, errOut)
	}
	for name, k := range listKeys(t) {
		if !slices.Equal(k.Models, []string{"org/m"}) {
			t.Errorf("%s: %q", name, k.Models)
		}
	}
	_, _, errOut := headroom("", "keys", "add", "y", "--model", "m", "--models-dir", root,
		"--models-dir", filepath.Join(root, "nowhere"))
	if !strings.Contains(errOut, "There is no folder") {
		t.Errorf("a folder that does not exist: %s", errOut)
	}
}

// TestKeysOfAServer makes, limits and removes keys while a server runs. All of it applies to the
// next request, usage survives a restart, and the text of a key is nowhere.
func TestKeysOfAServer(t *testing.T) {
	home := isolate(t)
	s := startServer(t, "--context", "1024", "--no-ssd-cache", "--log-level", "debug")
	const ask = `{"prompt":"Once upon a time","max_tokens":3,"temperature":0,"ignore_eos":true}`
	// Without keys, programs of this machine need none.
	if status, _, text := s.sendWith("", "POST", "/v1/completions", ask); status != 200 {
		t.Fatalf("without keys: %d %s", status, text)
	}
	all := addKey(t, "all")
	few := addKey(t, "few", "--requests-per-minute", "2", "--batch")
	demo := addKey(t, "demo", "--model", "Headroom-Demo")
	if code, _, errOut := headroom("", "keys", "add", "x", "--model", "nowhere"); code != 1 ||
		!strings.Contains(errOut, `no model "nowhere"`) ||
		!strings.Contains(errOut, "modelFolders in the settings") {
		t.Errorf("an unknown model: exit %d, %s", code, errOut)
	}
	if code, _, errOut := headroom("", "keys", "add", "ALL"); code != 1 ||
		!strings.Contains(errOut, "already") {
		t.Errorf("a name twice: exit %d, %s", code, errOut)
	}
	for _, c := range []struct {
		key, path, body string
		status          int
	}{
		{"", "/v1/completions", ask, 401},
		{"hr-wrong", "/v1/completions", ask, 401},
		{all, "/v1/completions", ask, 200},
		{few, "/v1/completions", ask, 200},
		{few, "/v1/messages", `{"max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`, 200},
		{few, "/v1/completions", ask, 429},
		{few, "/v1/messages", `{"max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`, 429},
		{demo, "/v1/completions", strings.Replace(ask, "{", `{"model":"headroom-demo",`, 1), 200},
		{demo, "/v1/completions", strings.Replace(ask, "{", `{"model":"other",`, 1), 404},
	} {
		status, header, text := s.sendWith(c.key, "POST", c.path, c.body)
		if status != c.status || (status == 429) != (header.Get("Retry-After") != "") {
			t.Errorf("%s %s: %d %s, want %d", c.path, c.body, status, text, c.status)
		}
	}
	// The web UI sends the token instead of a key.
	if status, text, _ := s.ask("POST", "/v1/completions", ask); status != 200 {
		t.Errorf("with the token: %d %s", status, text)
	}
	used := listKeys(t)
	if k := used["few"]; k.Requests != 2 || k.GeneratedTokens != 5 || k.PromptTokens == 0 ||
		k.LastUsedAtUnixMs == 0 || k.Priority != keys.Batch || k.RequestsPerMinute != 2 {
		t.Errorf("few: %+v", k)
	}
	if k := used["demo"]; k.Requests != 2 || k.GeneratedTokens != 3 ||
		fmt.Sprint(k.Models) != "[headroom-demo]" {
		t.Errorf("demo: %+v", k)
	}
	code, out, errOut := headroom("", "keys", "set", "FEW", "--requests-per-minute", "5",
		"--rename", "more", "--batch=false")
	if code != 0 || !strings.Contains(out, `"more" was changed`) {
		t.Errorf("set: exit %d, %s%s", code, out, errOut)
	}
	if k := listKeys(t)["more"]; k.RequestsPerMinute != 5 || k.Priority != keys.Interactive ||
		k.Requests != 2 || k.ConcurrentRequests != used["few"].ConcurrentRequests {
		t.Errorf("after set: %+v, before %+v", k, used["few"])
	}
	for _, args := range [][]string{{"more"}, {"nobody", "--batch"}, {"more", "--rename", "demo"},
		{"more", "--requests-per-minute", "-1"}} {
		code, _, errOut := headroom("", append([]string{"keys", "set"}, args...)...)
		if code == 0 || errOut == "" {
			t.Errorf("set %q: exit %d, %q", args, code, errOut)
		}
	}
	code, _, errOut = headroom("", "keys", "set", "more", "--requests-per-minute", "2",
		"--rename", "few", "--batch")
	if code != 0 {
		t.Errorf("set again: exit %d, %s", code, errOut)
	}
	code, out, _ = headroom("", "keys")
	if code != 0 ||
		!strings.Contains(out, "demo  headroom-demo  any         any      interactive") {
		t.Errorf("exit %d\n%s", code, out)
	}
	removeWhileRunning(t, s, all)
	s.stop()
	usage := filepath.Join(home, "config", "headroom", "key-usage.json")
	if data, err := os.ReadFile(usage); err != nil || bytes.Contains(data, []byte(used["all"].ID)) {
		t.Errorf("the usage of a removed key stays: %s %v", data, err)
	}
	after := listKeys(t)
	for _, name := range []string{"few", "demo"} {
		got, want := after[name], used[name]
		if got.LastUsedAtUnixMs < want.LastUsedAtUnixMs {
			t.Errorf("%s was last used at %d, before at %d", name, got.LastUsedAtUnixMs,
				want.LastUsedAtUnixMs)
		}
		got.LastUsedAtUnixMs = want.LastUsedAtUnixMs
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s after the end of the server: %+v, before %+v", name, got, want)
		}
	}
	log := s.log.Bytes()
	if !bytes.Contains(log, []byte("key=few")) {
		t.Errorf("the log does not name the key:\n%s", log)
	}
	s = startServer(t, "--context", "1024", "--no-ssd-cache")
	if status, _, text := s.sendWith(demo, "POST", "/v1/completions", ask); status != 200 {
		t.Errorf("after a restart: %d %s", status, text)
	}
	if got := listKeys(t)["demo"]; got.Requests != 3 || got.GeneratedTokens != 6 {
		t.Errorf("after a restart: %+v", got)
	}
	s.stop()
	for _, key := range []string{all, few, demo} {
		if bytes.Contains(append(log, s.log.Bytes()...), []byte(key)) {
			t.Error("the log has a key")
		}
		if paths := holders(t, home, key); len(paths) > 0 {
			t.Errorf("a key is in %q", paths)
		}
	}
}

// removeWhileRunning removes the key "all" while it generates an answer, which ends.
func removeWhileRunning(t *testing.T, s *serverProcess, key string) {
	t.Helper()
	type answer struct {
		status int
		text   string
	}
	ended := make(chan answer, 1)
	go func() {
		status, _, text := s.sendWith(key, "POST", "/v1/completions",
			`{"prompt":"Once upon a time","max_tokens":900,"ignore_eos":true,"stream":true}`)
		ended <- answer{status, text}
	}()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		_, text, _ := s.ask("GET", "/control/state", "")
		if strings.Contains(text, `"phase":"decode"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the request does not run")
		}
	}
	code, out, errOut := headroom("", "keys", "remove", "All")
	if code != 0 || !strings.Contains(out, `"all" was removed`) || strings.Contains(out, "is left") {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	select {
	case got := <-ended:
		if !strings.Contains(got.text, "The API key was removed") {
			t.Errorf("the running request: %d %.300s", got.status, got.text)
		}
	case <-time.After(patience):
		t.Fatal("the running request goes on")
	}
	if status, _, _ := s.sendWith(key, "GET", "/v1/models", ""); status != 401 {
		t.Errorf("the removed key: %d", status)
	}
}

// holders returns the files below a folder that contain a text.
func holders(t *testing.T, root, text string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestLastKeyRemoved: what the command says of the last key is what servers do then.
func TestLastKeyRemoved(t *testing.T) {
	isolate(t)
	addKey(t, "x")
	local, open := startServer(t), startServer(t, "--host", "0.0.0.0")
	_, out, _ := headroom("", "keys", "remove", "x")
	for said, c := range map[string]struct {
		server *serverProcess
		want   int
	}{
		"a server that only this computer can reach needs none now":     {local, 200},
		"One that --host opens to the network answers 401 to everybody": {open, 401},
	} {
		status, _, text := c.server.sendWith("", "GET", "/v1/models", "")
		if status != c.want || !strings.Contains(out, said) {
			t.Errorf("%d %s, want %d; the command said %s", status, text, c.want, out)
		}
	}
}

// TestKeysWithoutAServer: the commands work on the file, and say what is wrong with it.
func TestKeysWithoutAServer(t *testing.T) {
	home := isolate(t)
	code, out, _ := headroom("", "keys", "list")
	if code != 0 || !strings.Contains(out, "There are no named API keys") {
		t.Errorf("exit %d, %s", code, out)
	}
	if code, _, errOut := headroom("", "keys", "remove", "x"); code != 1 ||
		!strings.Contains(errOut, `no API key "x"`) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	addKey(t, "x")
	if code, out, _ := headroom("", "keys", "remove", "x"); code != 0 ||
		!strings.Contains(out, "No named API key is left") {
		t.Errorf("exit %d, %s", code, out)
	}
	path := filepath.Join(home, "config", "headroom", "keys.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"add", "y"}, {"set", "x", "--batch"},
		{"remove", "x"}} {
		if code, _, errOut := headroom("", append([]string{"keys"}, args...)...); code != 1 ||
			!strings.Contains(errOut, path) {
			t.Errorf("%q with a damaged file: exit %d, %s", args, code, errOut)
		}
	}
}
