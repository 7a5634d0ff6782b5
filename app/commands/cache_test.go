package commands

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/app/cache"
)

// longQuestion is longer than a block of tokens.
var longQuestion = strings.Repeat("Keys and values are kept for each token. ", 80) + question

// remember stores a conversation in the cache folder dir.
func remember(t *testing.T, dir string) {
	t.Helper()
	if code, _, errOut := headroom("", "run", "--block-ssd-cache-dir", dir,
		longQuestion); code != 0 {
		t.Fatalf("exit %d, %s", code, errOut)
	}
}

// listed returns the conversations of `cache ls --json`.
func listed(t *testing.T, args ...string) []cache.Conversation {
	t.Helper()
	code, out, errOut := headroom("", append([]string{"cache", "ls", "--json"}, args...)...)
	var list cache.List
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		t.Fatalf("exit %d, %v, %s, %s", code, err, out, errOut)
	}
	return list.Conversations
}

// TestNoCache: without a cache, the commands create nothing and report that nothing is cached.
func TestNoCache(t *testing.T) {
	home := isolate(t)
	dir := filepath.Join(home, "cache", "headroom", "blocks")
	for _, c := range []struct {
		args []string
		code int
		want string // on either stream
	}{
		{[]string{"ls"}, 0, "Nothing is cached in " + dir + " yet.\n"},
		{[]string{"stats"}, 0, "Nothing is cached in " + dir + " yet.\n"},
		{[]string{"clear"}, 0, dir + ": 0 files removed, 0 B\n"},
		{[]string{"ls", "--json"}, 0, `"conversations": []`},
		{[]string{"show", "abcdef"}, 1, "Nothing is cached in " + dir + " yet"},
		{[]string{"rm", "abcdef"}, 1, "Nothing is cached in " + dir + " yet"},
		{[]string{"pin", "abcdef"}, 1, "Nothing is cached in " + dir + " yet"},
		{[]string{"rm"}, 2, "<key>"},
	} {
		code, out, errOut := headroom("", append([]string{"cache"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("%q: exit %d, %s%s; want %d with %q", c.args, code, out, errOut, c.code,
				c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "cache")); !os.IsNotExist(err) {
		t.Errorf("the commands created a folder: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, "config")); !os.IsNotExist(err) {
		t.Errorf("the commands created settings: %v", err)
	}
}

// TestCache follows a conversation from ls to rm.
func TestCache(t *testing.T) {
	home := isolate(t)
	dir := filepath.Join(home, "cache", "headroom", "blocks")
	remember(t, dir)
	remember(t, dir) // read from disk

	list := listed(t)
	if len(list) != 1 || list[0].Model != "headroom-demo" || list[0].Tokens < 256 ||
		list[0].Hits != 1 || list[0].SecondsSaved <= 0 ||
		!strings.HasPrefix(list[0].Title, "Keys and values") {
		t.Fatalf("listed %+v", list)
	}
	key := list[0].Key
	checkOutput := func(want string, args ...string) {
		t.Helper()
		code, out, errOut := headroom("", append([]string{"cache"}, args...)...)
		if code != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q: exit %d, output:\n%s%s\nwant %s", args, code, out, errOut, want)
		}
	}
	checkOutput(`(?m)^KEY +MODEL +TITLE .*\n`+key[:12]+
		` +headroom-demo +Keys and values are kept for each token…? +\d+ +\? +\d+\.\d .B +0 B +just now +1 +\d+\.\d s *$`, "ls")
	checkOutput(`(?s)key +`+key+`\n.*pinned +no\n.*block +0 to 256 .*state +after \d+ `, "show", key[:6])
	checkOutput(`^$`, "pin", key[:6])
	checkOutput(`pinned +yes\n`, "show", key)
	checkOutput(`(?m) yes *$`, "ls")
	checkOutput(`^$`, "unpin", key)
	checkOutput(`(?s)folder +`+dir+
		`\nsize +.* \(at most .*\), \d+ files, 1 conversation\ndisk .*\nhits +1, `, "stats")
	checkOutput(`"hits": 1`, "stats", "--json")
	checkOutput(`^`+key[:8]+`: \d+ files removed, \d+\.\d .B\n$`, "rm", key[:8])
	if got := listed(t); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	if code, _, errOut := headroom("", "cache", "show", key); code != 1 ||
		!strings.Contains(errOut, "No conversation has a key") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

func TestCacheClear(t *testing.T) {
	dir := filepath.Join(isolate(t), "other")
	remember(t, dir)
	if code, _, errOut := headroom("", "cache", "clear", "--block-ssd-cache-dir", dir, "--model",
		"nobody"); code != 1 || !strings.Contains(errOut, "it has headroom-demo") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if code, out, _ := headroom("", "cache", "clear", "--block-ssd-cache-dir", dir, "--model",
		"headroom-demo"); code != 0 || !strings.HasPrefix(out, "headroom-demo: ") {
		t.Errorf("exit %d, %s", code, out)
	}
	if got := listed(t, "--block-ssd-cache-dir", dir); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
}

// served runs a server until ctx ends. It returns once the server has printed its address.
func served(ctx context.Context, s *Serve) (endpoint string, ended chan error) {
	reader, writer := io.Pipe()
	ended = make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, &terminal{out: writer, err: io.Discard})
		writer.Close()
	}()
	for lines := bufio.NewScanner(reader); endpoint == "" && lines.Scan(); {
		_, endpoint, _ = strings.Cut(lines.Text(), "endpoint: ")
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	return endpoint, ended
}

// TestCacheAsksTheServer: `cache ls` shows what is in memory only if a server uses the same folder.
func TestCacheAsksTheServer(t *testing.T) {
	home := isolate(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	endpoint, ended := served(ctx, &Serve{Host: "127.0.0.1"})
	body, _ := json.Marshal(
		map[string]any{"messages": []map[string]string{{"role": "user", "content": longQuestion}},
			"max_tokens": 8})
	answer, err := http.Post(endpoint+"/chat/completions", "application/json",
		strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	list := listed(t)
	if len(list) != 1 || list[0].MemoryTokens < 256 {
		t.Errorf("listed %+v", list)
	}
	if code, out, errOut := headroom("", "cache", "ls"); code != 0 ||
		!regexp.MustCompile(` (100|9\d) % `).MatchString(out) {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	if code, out, errOut := headroom("", "cache", "stats"); code != 0 ||
		!strings.Contains(out, "in memory") {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	if code, out, _ := headroom("", "cache", "ls", "--block-ssd-cache-dir",
		filepath.Join(home, "elsewhere")); code != 0 ||
		!strings.Contains(out, "Nothing is cached in") {
		t.Errorf("another folder: exit %d, %s", code, out)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if list := listed(t); len(list) != 1 || list[0].MemoryTokens != 0 || list[0].Key == "" {
		t.Errorf("after the server has stopped: %+v", list)
	}
}

// TestRemoveFreesServerMemory: `headroom cache rm` also frees the memory of a server that uses the
// same folder, so that the same prompt is computed again. This holds with the model in the server's
// process and in a worker.
func TestRemoveFreesServerMemory(t *testing.T) {
	for _, inProcess := range []bool{true, false} {
		isolate(t)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		endpoint, ended := served(ctx, &Serve{Host: "127.0.0.1", InProcess: inProcess})
		ask := func() (cachedTokens int) {
			body, _ := json.Marshal(
				map[string]any{"messages": []map[string]string{{"role": "user",
					"content": longQuestion}}, "max_tokens": 8, "temperature": 0})
			answer, err := http.Post(endpoint+"/chat/completions", "application/json",
				strings.NewReader(string(body)))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			var read struct {
				Usage struct {
					Prompt int `json:"prompt_tokens"`
					Detail struct {
						Cached int `json:"cached_tokens"`
					} `json:"prompt_tokens_details"`
				} `json:"usage"`
			}
			if err := json.NewDecoder(answer.Body).Decode(&read); err != nil ||
				read.Usage.Prompt < 256 {
				t.Fatalf("%+v, %v", read, err)
			}
			return read.Usage.Detail.Cached
		}
		for what, args := range map[string][]string{"rm": {"rm"}, "clear": {"clear"}} {
			ask()
			if ask() == 0 {
				t.Errorf("in process %t: nothing is cached before %s", inProcess, what)
			}
			key := ""
			for key == "" && ctx.Err() == nil { // a conversation is saved after its answer
				if list := listed(t); len(list) > 0 {
					key = list[0].Key
				}
			}
			if what == "rm" {
				args = append(args, key)
			}
			code, out, errOut := headroom("", append([]string{"cache"}, args...)...)
			if code != 0 || !regexp.MustCompile(` removed, .*, and \d.*B of memory\n$`).MatchString(
				out) || errOut != "" {
				t.Errorf("in process %t, %s: exit %d, %s%s", inProcess, what, code, out, errOut)
			}
			if list := listed(t); len(list) != 0 {
				t.Errorf("in process %t, %s: left %+v", inProcess, what, list)
			}
			if n := ask(); n != 0 {
				t.Errorf("in process %t: after %s %d tokens are cached", inProcess, what, n)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestFormats(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB",
		99_949: "99.9 kB", 99_950: "100 kB", 999_499: "999 kB", 999_500: "1.0 MB", 20e9: "20.0 GB",
		5e15: "5000 TB"} {
		if got := formatBytes(bytes); got != want {
			t.Errorf("%d bytes are %q, want %q", bytes, got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "0.0 s", 12.34: "12.3 s", 59.94: "59.9 s",
		59.96: "1m0s", 4000: "1h6m40s"} {
		if got := formatSeconds(seconds); got != want {
			t.Errorf("%g s are %q, want %q", seconds, got, want)
		}
	}
	now := time.Unix(1_000_000, 0)
	for passed, want := range map[time.Duration]string{-time.Minute: "just now",
		59 * time.Second: "just now", time.Minute: "1 min ago", 119 * time.Minute: "1 h ago",
		50 * time.Hour: "2 d ago"} {
		if got := ago(now, now.Add(-passed).UnixMilli()); got != want {
			t.Errorf("%s ago is %q, want %q", passed, got, want)
		}
	}
	if got := ago(now, 0); got != "never" {
		t.Errorf("0 is %q", got)
	}
	for text, want := range map[string]string{"short": "short", "a\x1b[2J\nb": "a [2J b",
		"what is a cache": "what is…"} {
		if got := clip(text, 9); got != want {
			t.Errorf("%q is clipped to %q, want %q", text, got, want)
		}
	}
}
