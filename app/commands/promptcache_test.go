package commands

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headroom/app/cache"
	"headroom/app/service"
	"headroom/app/settings"
)

// document is a prompt of several blocks. The question follows in the same message, on a line of
// its own.
var document = strings.TrimSpace(strings.Repeat("Keys and values are kept for each token. ", 60))

// saveDocument saves the document to a new file.
func saveDocument(t *testing.T, args ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "prompt.safetensors")
	code, out, errOut := headroom(document+"\n", append([]string{"cache", "save", "--prompt", "-",
		path}, args...)...)
	if code != 0 || !regexp.MustCompile(`^`+path+`: \d{3} tokens of headroom-demo, \d+\.\d .B, `+
		`computed in .*\. The file is not encrypted: whoever has it can read the prompt\.\n$`).
		MatchString(out) {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	return path
}

// answerOf runs a prompt and returns its answer, the tokens of its prompt and the cached ones.
func answerOf(t *testing.T, args ...string) (content string, prompt, cached int) {
	t.Helper()
	code, out, errOut := headroom("", append([]string{"run", "--json", "--temp=0",
		"--max-tokens=30"}, args...)...)
	var a answerDocument
	if err := json.Unmarshal([]byte(out), &a); code != 0 || err != nil {
		t.Fatalf("%q: exit %d, %v, %s", args, code, err, errOut)
	}
	return a.Content, a.Usage.PromptTokens, a.Usage.CachedTokens
}

// TestCacheSave: an answer after a saved prompt is that to the whole prompt, in every format, and
// without a flag but the file's. The tokens of the saved prompt are not computed again.
func TestCacheSave(t *testing.T) {
	isolate(t)
	whole := document + "\n" + question
	for _, flags := range [][]string{nil, {"--kv-bits", "4", "--kv-group-size", "64",
		"--quantized-kv-start", "512"}, {"--state-format=int8", "--max-kv-size=64"},
		{"--ignore-chat-template", "--kv-format=f16"}, {"--system=Answer briefly."}} {
		path := saveDocument(t, flags...)
		want, prompt, _ := answerOf(t, append([]string{whole}, flags...)...)
		got, n, cached := answerOf(t, "--prompt-cache-file", path, question)
		if got != want || n != prompt || cached < n-40 || cached >= n {
			t.Errorf("%q: %q with %d of %d prompt tokens cached, expected %q and %d tokens", flags,
				got, cached, n, want, prompt)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
}

// TestPromptCacheSettings: the settings of the model do not change the format of a saved prompt,
// and flags that do are refused.
func TestPromptCacheSettings(t *testing.T) {
	isolate(t)
	path := saveDocument(t)
	want, _, _ := answerOf(t, "--prompt-cache-file", path, question)
	err := service.OpenSettings().Change(func(s *settings.Settings) {
		s.Models = map[string]settings.Model{"headroom-demo": {KVFormat: "q4_0", MaxSequences: 3}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, cached := answerOf(t, "--prompt-cache-file", path, question); got != want ||
		cached < 256 {
		t.Errorf("%q with %d tokens cached, expected %q", got, cached, want)
	}
	// The store's folder is of no use here, and does no harm.
	if got, _, _ := answerOf(t, "--prompt-cache-file", path, "--block-ssd-cache-dir",
		filepath.Join(t.TempDir(), "blocks"), question); got != want {
		t.Errorf("with a store: %q, expected %q", got, want)
	}
}

// TestPromptCacheModel: run finds the model in the file, also one that was named by its folder, and
// says what to do if it is gone.
func TestPromptCacheModel(t *testing.T) {
	isolate(t)
	folder := demoFolder(t, filepath.Join(t.TempDir(), "mine"))
	path := filepath.Join(t.TempDir(), "prompt")
	if code, _, errOut := headroom("", "cache", "save", "--model", folder, "--prompt", document,
		path); code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	if _, _, cached := answerOf(t, "--prompt-cache-file", path, question); cached < 256 {
		t.Errorf("%d tokens cached", cached)
	}
	if err := os.Rename(folder, folder+"-moved"); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := headroom("", "run", "--prompt-cache-file", path, question)
	if code != 1 || !strings.Contains(errOut, "The prompt cache was made with that model.") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if _, _, cached := answerOf(t, "--model", folder+"-moved", "--prompt-cache-file", path,
		question); cached < 256 {
		t.Errorf("%d tokens cached", cached)
	}
}

// TestFlagsOfCachePrompt: the flags of mlx_lm.cache_prompt are accepted as they are.
func TestFlagsOfCachePrompt(t *testing.T) {
	isolate(t)
	path := filepath.Join(t.TempDir(), "prompt.safetensors")
	code, out, errOut := headroom("", "cache", "save", "--model", "headroom-demo",
		"--prompt-cache-file", path, "--prompt", document, "--max-kv-size", "400", "--kv-bits", "8",
		"--kv-group-size", "64", "--quantized-kv-start", "0", "--trust-remote-code",
		"--eos-token", "<|im_end|>", "--json")
	var d promptCacheDocument
	if err := json.Unmarshal([]byte(out), &d); code != 0 || err != nil || d.File != path ||
		d.Model != "headroom-demo" || d.Tokens < 256 || d.Bytes < 1000 ||
		!strings.Contains(errOut, "--trust-remote-code has no effect") ||
		!strings.Contains(errOut, "--eos-token has no effect") {
		t.Fatalf("exit %d, %v, %q, %s", code, err, out, errOut)
	}
	if _, _, cached := answerOf(t, "--model", "headroom-demo", "--prompt-cache-file", path,
		"--prompt", question); cached < d.Tokens {
		t.Errorf("%d of %d tokens were cached", cached, d.Tokens)
	}
	code, _, errOut = headroom("", "cache", "save", "--adapter-path", "x", "--prompt", "x", path)
	if code != 2 || !strings.Contains(errOut, "unknown flag --adapter-path") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestPromptCacheRefused: each mistake has one sentence, and no file of others is replaced.
func TestPromptCacheRefused(t *testing.T) {
	home := isolate(t)
	path := saveDocument(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, data []byte) string {
		at := filepath.Join(home, name)
		if err := os.WriteFile(at, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return at
	}
	changed := append([]byte{}, good...)
	changed[len(changed)*3/4] ^= 4
	mine, cut, bit := file("mine.txt", []byte("my text")), file("cut", good[:len(good)/2]),
		file("bit", changed)
	weights := filepath.Join("..", "demo", "model", "model.safetensors")
	link := filepath.Join(home, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":   {[]string{"cache", "save", "--prompt", "x"}, 2, "expected one file"},
		"no prompt": {[]string{"cache", "save", path}, 2, "--prompt"},
		"blank":     {[]string{"cache", "save", "--prompt", " ", path}, 1, "The prompt is empty"},
		"no model": {[]string{"cache", "save", "--model", "nobody", "--prompt=x", path}, 1,
			"nobody"},
		"a text":   {[]string{"cache", "save", "--prompt=x", mine}, 1, "add --force"},
		"a model":  {[]string{"cache", "save", "--prompt=x", weights}, 1, "add --force"},
		"a folder": {[]string{"cache", "save", "--prompt=x", "--force", home}, 1, "exists"},
		"a link":   {[]string{"cache", "save", "--prompt=x", "--force", link}, 1, "exists"},
		"no folder": {[]string{"cache", "save", "--prompt=x", home + "/a/b"}, 1,
			"There is no folder"},
		"an adapter": {[]string{"run", "--prompt-cache-file", path, "--adapter", home, "x"}, 2,
			"the file was computed without one"},
		"not there": {[]string{"run", "--prompt-cache-file", home + "/no", "x"}, 1,
			"There is no file"},
		"no cache": {[]string{"run", "--prompt-cache-file", mine, "x"}, 1,
			"is not a prompt cache"},
		"weights": {[]string{"run", "--prompt-cache-file", weights, "x"}, 1,
			"is not a prompt cache"},
		"cut":         {[]string{"run", "--prompt-cache-file", cut, "x"}, 1, "truncated"},
		"changed":     {[]string{"run", "--prompt-cache-file", bit, "x"}, 1, "is damaged"},
		"import cut":  {[]string{"cache", "import", cut}, 1, "truncated"},
		"import text": {[]string{"cache", "import", mine}, 1, "is not a prompt cache"},
		"a format": {[]string{"run", "--prompt-cache-file", path, "--kv-format=q8_0", "x"}, 1,
			"and the model is loaded with q8_0"},
		"system": {[]string{"run", "--prompt-cache-file", path, "--system=x", "x"}, 2,
			"--system has no effect together with --prompt-cache-file"},
		"no template": {[]string{"run", "--prompt-cache-file", path, "--ignore-chat-template", "x"},
			1, "has no effect"},
		"no prefixes": {[]string{"run", "--prompt-cache-file", path, "--no-prefix-cache", "x"}, 2,
			"--no-prefix-cache has no effect"},
	} {
		code, out, errOut := headroom("", c.args...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d, %q, %s; expected %d with %q", name, code, out, errOut, c.code,
				c.want)
		}
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "my text" {
		t.Errorf("the file of others is now %.20q, %v", text, err)
	}
	// A prompt cache is replaced, and with --force any file.
	for _, args := range [][]string{{path}, {"--force", mine}} {
		if code, _, errOut := headroom("", append([]string{"cache", "save", "--prompt=Short"},
			args...)...); code != 0 {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}

// TestExportImport carries a conversation from one store to another, which may be encrypted.
func TestExportImport(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			home := isolate(t)
			err := service.OpenSettings().Change(func(s *settings.Settings) {
				s.Cache.Unencrypted = !encrypted
			})
			if err != nil {
				t.Fatal(err)
			}
			flags := func(dir string) []string { return []string{"--block-ssd-cache-dir", dir} }
			first, second := filepath.Join(home, "first"), filepath.Join(home, "second")
			want, prompt, _ := answerOf(t, append(flags(first), longQuestion)...)
			list := listed(t, "--block-ssd-cache-dir", first)
			if len(list) != 1 {
				t.Fatalf("%d conversations", len(list))
			}
			path := filepath.Join(home, "conversation.safetensors")
			code, out, errOut := headroom("", "cache", "export", "--block-ssd-cache-dir", first,
				list[0].Key[:8], path)
			if code != 0 || !strings.Contains(out, " of headroom-demo, ") ||
				!strings.Contains(out, "The file is not encrypted") {
				t.Fatalf("exit %d, %q, %s", code, out, errOut)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			for i, words := range []string{" written to " + second, ", 0 files written to "} {
				code, out, errOut = headroom("", "cache", "import", "--block-ssd-cache-dir", second,
					path)
				if code != 0 || !strings.Contains(out, words) {
					t.Errorf("import %d: exit %d, %q, %s", i, code, out, errOut)
				}
			}
			if cache.Encrypted(second) != encrypted {
				t.Errorf("the new folder is encrypted: %t", !encrypted)
			}
			imported := listed(t, "--block-ssd-cache-dir", second)
			if len(imported) != 1 || imported[0].Title != list[0].Title ||
				imported[0].Tokens != list[0].Tokens || imported[0].Format != list[0].Format {
				t.Errorf("imported %+v, expected %+v", imported, list)
			}
			got, _, cached := answerOf(t, append(flags(second), longQuestion)...)
			if got != want || cached < prompt-40 {
				t.Errorf("%q with %d of %d tokens cached, expected %q", got, cached, prompt, want)
			}
			// run goes on with the next message.
			got, n, cached := answerOf(t, "--prompt-cache-file", path, question)
			if cached < prompt || n < cached+10 || got == "" {
				t.Errorf("%q with %d of %d prompt tokens cached, expected %d or more", got, cached,
					n, prompt)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		home := isolate(t)
		code, _, errOut := headroom("", "cache", "export", "abcdef", filepath.Join(home, "x"))
		if code != 1 || !strings.Contains(errOut, "Nothing is cached in ") {
			t.Errorf("exit %d, %s", code, errOut)
		}
		remember(t, filepath.Join(home, "cache", "headroom", "blocks"))
		code, _, errOut = headroom("", "cache", "export", "abcdef", filepath.Join(home, "x"))
		if code != 1 || !strings.Contains(errOut, "No conversation has a key") {
			t.Errorf("exit %d, %s", code, errOut)
		}
	})
}

// TestImportWhileServing: a running server goes on from a conversation that the command has added
// to its cache, with the same answer, and the conversation can be exported again.
func TestImportWhileServing(t *testing.T) {
	home := isolate(t)
	first, second := filepath.Join(home, "first"), filepath.Join(home, "second")
	path := filepath.Join(home, "conversation")
	want, prompt, _ := answerOf(t, "--block-ssd-cache-dir", first, longQuestion)
	key := listed(t, "--block-ssd-cache-dir", first)[0].Key
	s := startServer(t, "--model", "headroom-demo", "--block-ssd-cache-dir", second)
	for _, args := range [][]string{{"export", "--block-ssd-cache-dir", first, key, path},
		{"import", "--block-ssd-cache-dir", second, path}} {
		if code, _, errOut := headroom("", append([]string{"cache"}, args...)...); code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, errOut)
		}
	}
	body, _ := json.Marshal(map[string]any{"temperature": 0, "max_tokens": 30,
		"messages": []any{map[string]string{"role": "user", "content": longQuestion}}})
	r, err := http.Post("http://"+s.address+"/v1/chat/completions", "application/json",
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || len(answer.Choices) != 1 {
		t.Fatalf("%s, %v, %+v", r.Status, err, answer)
	}
	if got := answer.Choices[0].Message.Content; got != want ||
		answer.Usage.Details.Cached < prompt-40 {
		t.Errorf("%q with %d of %d tokens cached, expected %q", got, answer.Usage.Details.Cached,
			prompt, want)
	}
	key = listed(t, "--block-ssd-cache-dir", second)[0].Key // another folder hides keys otherwise
	if code, _, errOut := headroom("", "cache", "export", "--block-ssd-cache-dir", second, key[:8],
		path); code != 0 {
		t.Errorf("an export while a server runs: exit %d, %s", code, errOut)
	}
}

// TestImportSaved: a saved prompt can be imported, too.
func TestImportSaved(t *testing.T) {
	isolate(t)
	path := saveDocument(t)
	code, out, errOut := headroom("", "cache", "import", "--json", path)
	if code != 0 || !strings.Contains(out, `"model": "headroom-demo"`) {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	list := listed(t)
	if len(list) != 1 || !strings.HasPrefix(list[0].Title, "Keys and values") {
		t.Errorf("listed %+v", list)
	}
}
