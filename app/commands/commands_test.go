package commands

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/keys"
	"headroom/app/memory"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/problem"
)

const patience = 30 * time.Second

// isolate gives the test a separate home folder with only the bundled model, no settings and an
// empty cache.
func isolate(t *testing.T) string {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home,
		"XDG_CONFIG_HOME": filepath.Join(home, "config"),
		"XDG_CACHE_HOME":  filepath.Join(home, "cache"),
		"XDG_DATA_HOME":   filepath.Join(home, "data"), "HF_HUB_CACHE": "", "HF_HOME": "",
		"HF_ENDPOINT": "", "HF_TOKEN": "",
		"HEADROOM_MODELS": "", "HEADROOM_API_KEY": ""} {
		t.Setenv(name, value)
	}
	return home
}

// headroom runs the program with these arguments.
func headroom(stdin string, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = Main(args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

const question = "What is a KV cache?"

var speedLine = regexp.MustCompile(
	`(?m)^\d+ tokens, \d+\.\d tokens/s; prompt \d+ tokens, (\d+ cached, )?\d+\.\d tokens/s$`)

func TestRun(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom("", "run", question)
	if code != 0 || !strings.Contains(out, "keys and values") || !strings.HasSuffix(out, ".\n") {
		t.Errorf("exit %d, output %q, %s", code, out, errOut)
	}
	if !speedLine.MatchString(errOut) || strings.Count(errOut, "\n") != 2 {
		t.Errorf("stderr %q, want a line of speed and one of drafts", errOut)
	}
	for name, args := range map[string][]string{"stdin": {"run", "-"},
		"named":         {"run", "headroom-demo", question},
		"named by flag": {"run", "--model", "headroom-demo", question}} {
		code, again, againErr := headroom(question+"\n", args...)
		if prompt := regexp.MustCompile(`prompt \d+ tokens`); code != 0 || again != out ||
			prompt.FindString(againErr) != prompt.FindString(errOut) {
			t.Errorf("%s: exit %d, output %q, want the same as before; %s", name, code, again,
				againErr)
		}
	}
	if code, short, _ := headroom("", "run", "--max-tokens", "3", question); code != 0 ||
		len(short) >= len(out) || !strings.HasPrefix(out, strings.TrimSpace(short)) {
		t.Errorf("with 3 tokens: exit %d, output %q", code, short)
	}
}

func TestRunShowsReasoning(t *testing.T) {
	isolate(t)
	code, out, _ := headroom("", "run", "--think", "Sort: pear, apple, fig")
	if code != 0 || !strings.HasPrefix(out, "<think>\n") ||
		!strings.Contains(out, "\n</think>\n\n") || strings.Contains(out, dim) {
		t.Errorf("exit %d, output %q", code, out)
	}
}

func TestPainterOnATerminal(t *testing.T) {
	var b bytes.Buffer
	p := painter{out: &b, style: true}
	p.write(chat.Piece{Kind: chat.Reasoning, Text: "a"})
	p.write(chat.Piece{Kind: chat.Content, Text: "b"})
	p.end()
	if want := dim + "a" + plain + "\n\nb\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// TestModelFolders: the folders of the settings are searched, as those of --models-dir are.
func TestModelFolders(t *testing.T) {
	home := isolate(t)
	root := filepath.Join(home, "mine")
	if err := os.MkdirAll(filepath.Join(root, "org", "some-model"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "org", "some-model", "config.json"),
		[]byte(`{"model_type":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	err := service.OpenSettings().Change(func(s *settings.Settings) {
		s.ModelFolders = []string{root}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, out, errOut := headroom("", "models"); !strings.Contains(out, "some-model") {
		t.Errorf("got %q, %q", out, errOut)
	}
}

// TestControlCharacters prints what a model's folder and its answers contain. None of it may reach
// a terminal as a control character.
func TestControlCharacters(t *testing.T) {
	home := isolate(t)
	root := filepath.Join(home, "models")
	name := "a\x1b[2Jb\nc\u202ed"
	if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, name, "config.json"),
		[]byte(`{"model_type":"x\u001b[2Jy"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, errOut := headroom("", "models", "--models-dir", root)
	_, _, refused := headroom("", "run", "--models-dir", root, "-m", name, "hi")
	if !strings.Contains(out, "a [2Jb c d") ||
		strings.ContainsAny(out+errOut+refused, "\x1b\u202e") {
		t.Errorf("got %q, %q, %q", out, errOut, refused)
	}
	for safe, want := range map[bool]string{true: "a[0mb\n\tc\n", false: "a\x1b[0mb\n\tc\a\n"} {
		var b bytes.Buffer
		p := painter{out: &b, safe: safe}
		p.write(chat.Piece{Kind: chat.Content, Text: "a\x1b[0mb\n\tc\a"})
		p.end()
		if b.String() != want {
			t.Errorf("safe %t: got %q, want %q", safe, b.String(), want)
		}
	}
}

func TestRefusals(t *testing.T) {
	home := isolate(t)
	empty := filepath.Join(home, "empty")
	truncated := filepath.Join(home, "truncated")
	for dir, files := range map[string][]string{empty: nil,
		truncated: {"config.json", "tokenizer.json", "model.safetensors"}} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(filepath.Join("../demo/model", name))
			if err != nil {
				t.Fatal(err)
			}
			if name == "model.safetensors" {
				data = data[:len(data)/2]
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	cases := []struct {
		name string
		args []string
		code int
		want []string // on stderr
	}{
		{"no command", nil, 2, []string{"expected one of", "headroom --help"}},
		{"unknown flag", []string{"run", "--frobnicate", "x"}, 2,
			[]string{"unknown flag --frobnicate"}},
		{"wrong size", []string{"serve", "--memory-cache-size", "2XB"}, 2,
			[]string{`--memory-cache-size: "2XB" is not a size`, `"20GB" or "1.5 GB"`}},
		{"negative stall", []string{"serve", "--max-prefill-stall=-1s"}, 2,
			[]string{"--max-prefill-stall is -1s, expected 0 or more"}},
		{"negative conversations", []string{"serve", "--prompt-cache-size=-1"}, 2,
			[]string{"--prompt-cache-size is -1, expected 0 or more"}},
		{"no such way to decode ahead", []string{"serve", "--speculate", "x"}, 2, []string{
			`--speculate: expected "auto", "off", "lookup", "mtp", "draft" or "dflash", got "x"` + "\n"}},
		{"no such device", []string{"serve", "--device", "x"}, 2,
			[]string{`--device must be one of "cpu","metal","sim","nv" but got "x"`}},
		{"no such level", []string{"serve", "--log-level", "x"}, 2,
			[]string{`--log-level must be one of "debug","info","warn","error" but got "x"`}},
		{"no folder", []string{"cache", "move"}, 2,
			[]string{"<dir>", "Try: headroom cache move --help"}},
		{"too many threads", []string{"run", "--threads", "100000", "x"}, 2,
			[]string{"--threads is 100000, expected 0 to 1024"}},
		{"too many threads to measure", []string{"bench", "--threads", "100000"}, 2,
			[]string{"--threads is 100000, expected 0 to 1024"}},
		{"too many threads for one model", []string{"bench", "speed", "--threads", "100000"}, 2,
			[]string{"--threads is 100000, expected 0 to 1024"}},
		{"too many threads for the cache", []string{"bench", "cache", "--threads", "100000"}, 2,
			[]string{"--threads is 100000, expected 0 to 1024"}},
		{"not UTF-8", []string{"run", "-"}, 1,
			[]string{"The user message is not valid UTF-8", "fix: "}},
		{"empty prompt", []string{"run", " "}, 1, []string{"headroom: The prompt is empty",
			"fix: Write it in quotes, or pipe a text into: headroom run -"}},
		{"too many words", []string{"run", "a", "b", "c"}, 1,
			[]string{"got 3 words", "fix: Put the prompt into quotes"}},
		{"two models", []string{"run", "--model", "headroom-demo", "headroom-demo", "x"}, 1,
			[]string{"got 2 words", "name the model once"}},
		{"unknown model", []string{"run", "gpt-4", "x"}, 1,
			[]string{`There is no model "gpt-4" here`, "why: the models are headroom-demo"}},
		{"empty folder", []string{"serve", "--port", "0", "--model", empty}, 1,
			[]string{"is not a model folder", "why: it has no config.json", "fix: "}},
		{"truncated", []string{"serve", "--port", "0", "--model", truncated}, 1,
			[]string{"damaged or incomplete", "truncated", "fix: Download it again."}},
		{"too many at once", []string{"run", "--max-sequences", "257", "x"}, 2,
			[]string{"--max-sequences is 257, expected 0 to 256"}},
		{"too long", []string{"run", "--context", "20", strings.Repeat("word ", 50)}, 1,
			[]string{"maximum context length is 20 tokens", "your prompt has"}},
		{"allowed host with a port", []string{"serve", "--allow-host", "ok.lan,a:1"}, 1,
			[]string{`--allow-host "a:1" is not valid`, "a host name has no port",
				"Give the name alone: --allow-host a."}},
		{"allowed host with a path", []string{"serve", "--allow-host", "http://mac.lan:80/x"}, 1,
			[]string{"is not valid", "Give the name alone: --allow-host mac.lan."}},
		{"allowed host in brackets", []string{"serve", "--allow-host", "[fd00::1]:80"}, 1,
			[]string{"is not valid", "Give the name alone: --allow-host fd00::1."}},
		{"no allowed host", []string{"serve", "--allow-host", "*"}, 1,
			[]string{"is not valid", "Give a name such as my-mac.local."}},
		{"impossible host",
			[]string{"serve", "--host", "not a host", "--port", "0", "--no-api-key"}, 1,
			[]string{"cannot listen on not a host", "Check --host and --port"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, out, errOut := headroom("\xff", c.args...)
			if code != c.code || out != "" || strings.Contains(errOut, "goroutine") {
				t.Errorf("exit %d, want %d; stdout %q; stderr %s", code, c.code, out, errOut)
			}
			for _, want := range c.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("stderr lacks %q: %s", want, errOut)
				}
			}
		})
	}
}

// TestInvalidModelSettings: a setting that no model can have costs itself alone, with a warning. It
// names the file and the key.
func TestInvalidModelSettings(t *testing.T) {
	for key, value := range map[string]string{"kvFormat": `"q9"`, "kvBits": `"q9"`,
		"kvGroupSize": `"7"`, "kvBoundaryBits": "99", "kvStartTokens": "-1",
		"snapKVTokens": "-1", "stateFormat": `"f8"`, "maxKVTokens": "-5", "contextTokens": "-1", "maxSequences": "-1",
		"speculate": `"x"`, "temperature": "-3", "templateArguments": "[]"} {
		isolate(t)
		path := service.OpenSettings().Path()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"models":{"headroom-demo":{"seed":5,%q:%s}}}`, key, value)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errOut := headroom("", "run", "--max-tokens", "1", "hi")
		if code != 0 || !strings.Contains(errOut, "models.headroom-demo."+key+":") ||
			!strings.Contains(errOut, "values in "+path) {
			t.Errorf("%s %s: exit %d, stderr %s", key, value, code, errOut)
		}
		m := service.OpenSettings().Get().ForModel("headroom-demo")
		if !reflect.DeepEqual(m, settings.Model{Seed: m.Seed}) || m.Seed == nil || *m.Seed != 5 {
			t.Errorf("%s %s: got %+v, want the seed alone", key, value, m)
		}
	}
}

// TestRefusedModelSettings: a refusal of a setting that contradicts a flag names the file.
func TestRefusedModelSettings(t *testing.T) {
	isolate(t)
	file := service.OpenSettings()
	if err := file.Change(func(s *settings.Settings) {
		s.Models = map[string]settings.Model{"headroom-demo": {KVBits: "8"}}
	}); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := headroom("", "run", "--kv-format", "f16", "hi")
	if code != 1 || !strings.Contains(errOut, "settings have kvBits, in "+file.Path()) {
		t.Errorf("exit %d, stderr %s", code, errOut)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"--version"}} {
		if code, out, errOut := headroom("", args...); code != 0 ||
			!strings.Contains(out, "headroom") || errOut != "" {
			t.Errorf("%q: exit %d, %q, %q", args, code, out, errOut)
		}
	}
}

// writerFunc is a function as an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestCtrlC interrupts a run after the first piece of the answer. The text so far stays, the
// figures follow, and the exit code is 130.
func TestCtrlC(t *testing.T) {
	isolate(t)
	ctx, interrupt := context.WithCancel(t.Context())
	var out, errOut bytes.Buffer
	c := Run{First: "hi"}
	err := c.Run(ctx, &terminal{in: nil, err: &errOut, out: writerFunc(func(p []byte) (int, error) {
		interrupt()
		return out.Write(p)
	})})
	if code := report(err, io.Discard); code != 130 {
		t.Errorf("exit %d (%v), want 130", code, err)
	}
	if out.Len() == 0 || !strings.HasSuffix(out.String(), "\n") ||
		!strings.Contains(errOut.String(), "tokens/s") {
		t.Errorf("stdout %q, stderr %q", out.String(), errOut.String())
	}
}

// TestFullDisk: an answer that cannot be written is an error, not a success.
func TestFullDisk(t *testing.T) {
	isolate(t)
	var errOut bytes.Buffer
	code := Main([]string{"run", "hi"}, nil,
		writerFunc(func([]byte) (int, error) { return 0, syscall.ENOSPC }), &errOut)
	if code != 1 || !strings.Contains(errOut.String(), "The answer cannot be written") ||
		!strings.Contains(errOut.String(), "no space left") {
		t.Errorf("exit %d, stderr %s", code, errOut.String())
	}
}

// TestSignalWhileReading: a signal ends run and chat while they wait for input.
func TestSignalWhileReading(t *testing.T) {
	for _, c := range []struct {
		args   []string
		signal syscall.Signal
	}{{[]string{"run", "-"}, syscall.SIGINT}, {[]string{"run", "-"}, syscall.SIGTERM},
		{[]string{"chat"}, syscall.SIGINT}, {[]string{"chat"}, syscall.SIGTERM}} {
		t.Run(fmt.Sprint(c.args, c.signal), func(t *testing.T) {
			isolate(t)
			ended := make(chan int, 1)
			reading := make(chan struct{})
			never := readerFunc(func([]byte) (int, error) { close(reading); select {} })
			go func() { ended <- Main(c.args, never, io.Discard, io.Discard) }()
			<-reading // the signal handlers are set
			if err := syscall.Kill(os.Getpid(), c.signal); err != nil {
				t.Fatal(err)
			}
			select {
			case code := <-ended:
				if code != 130 {
					t.Errorf("exit %d, want 130", code)
				}
			case <-time.After(patience):
				t.Fatal("still reading")
			}
		})
	}
}

// readerFunc is a function as an io.Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestModels(t *testing.T) {
	home := isolate(t)
	_, out, _ := headroom("", "models")
	if !regexp.MustCompile(`(?m)^headroom-demo +qwen3_5_moe \(MTP\) +4-bit, group 64 +11\.3 MB `+
		`+\d+ MB +(yes|tight)$`).MatchString(out) || !strings.Contains(out, "Only the bundled model was found") {
		t.Errorf("output:\n%s", out)
	}
	bad := filepath.Join(home, "more", "bad")
	_ = os.MkdirAll(bad, 0o755)
	_ = os.WriteFile(filepath.Join(bad, "config.json"), []byte(`{"model_type":"llama"}`), 0o644)
	code, out, _ := headroom("", "models", "--models-dir", filepath.Dir(bad))
	if code != 0 || !strings.Contains(out, "Damaged:") ||
		!strings.Contains(out, "  bad: The model is damaged or incomplete") ||
		strings.Count(out, bad) != 1 {
		t.Errorf("exit %d, output:\n%s", code, out)
	}
	code, out, _ = headroom("", "models", "--json", "--models-dir", filepath.Dir(bad))
	var list modelsDocument
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 ||
		len(list.Models) != 2 || list.Models[0].NeedsBytes == 0 || list.AvailableBytes == 0 ||
		list.Models[1].State != "broken" || list.Models[1].Folder != bad ||
		!strings.HasPrefix(list.Models[1].Reason, "The model is damaged") {
		t.Errorf("exit %d, %v, %+v", code, err, list)
	}
}

// TestServeSurvivesAnotherModel starts a broken model by the API while the first one is loading,
// which goes on until then. The server must go on.
func TestServeSurvivesAnotherModel(t *testing.T) {
	isolate(t)
	first, broken := tinyFolder(t), tinyFolder(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	c := &Serve{Model: first}
	o := c.ModelFlags.ServiceOptions(ServiceUse{})
	o.Listen, o.Settings = "127.0.0.1", service.OpenSettings()
	loading, hosts := make(chan struct{}), make(chan *host.Host, 1)
	o.NewHost = func(s *settings.File) *host.Host {
		h := host.New(host.Options{Library: c.ModelFlags.library(s), Meter: &memory.Meter{},
			Open: func(ctx context.Context, src engine.Source, _ engine.Options) (host.Engine,
				error) {
				if src.Dir != first {
					return nil, problem.New(problem.ModelBroken, "It is broken", "", "")
				}
				close(loading)
				<-ctx.Done()
				return nil, ctx.Err()
			}})
		hosts <- h
		return h
	}
	ended := make(chan error, 1)
	said, says := io.Pipe()
	go func() {
		defer says.Close()
		ended <- c.serve(ctx, o, &terminal{out: io.Discard, err: says})
	}()
	h := <-hosts
	select {
	case <-loading:
	case err := <-ended:
		t.Fatal("the server has ended:", err)
	}
	if err := h.Start(broken); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil ||
		!strings.Contains(line, "another model was started") {
		t.Fatalf("it says %q, %v, and ends with %v", line, err, <-ended)
	}
	if err := h.Wait(ctx); problem.From(err).Code != problem.ModelBroken {
		t.Errorf("loading the other model: %v", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.State().Endpoint.UIURL+"health",
		nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal("the server has ended:", err)
	}
	defer got.Body.Close()
	if text, err := io.ReadAll(got.Body); err != nil ||
		!strings.Contains(string(text), "could not be loaded") {
		t.Errorf("health: %s, %v", text, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// tinyFolder returns a new folder with a tiny model that runs.
func tinyFolder(t *testing.T) string {
	dir := t.TempDir()
	tinyModel(t, "llama", dir)
	return dir
}

// tinyModel writes a tiny model of this architecture to a folder. Of its tokens, only the first 320
// exist.
func tinyModel(t *testing.T, architecture, dir string) {
	t.Helper()
	tiny := filepath.Join("..", "..", "engine", "models", "testdata", "tiny", architecture)
	for name, from := range map[string]string{"config.json": tiny, "model.safetensors": tiny,
		"tokenizer.json": filepath.Join("..", "demo", "model")} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestServe starts the server, uses the addresses that it prints, and stops it.
func TestServe(t *testing.T) {
	isolate(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	reader, writer := io.Pipe()
	var errOut bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- (&Serve{Host: "127.0.0.1", APIKey: "it's a key"}).Run(ctx,
			&terminal{out: writer, err: &errOut})
		writer.Close()
	}()
	printed := map[string]string{}
	for lines := bufio.NewScanner(reader); len(printed) < 6 && lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ": ")
		printed[name] = rest
	}
	endpoint, base := printed["endpoint"], printed["web UI"]
	dir, err := control.SettingsDir()
	if err != nil {
		t.Fatal(err)
	}
	token, err := control.LoadToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	if endpoint == "" || printed["decoding ahead"] != "by the model's own block and by lookup" ||
		!strings.Contains(printed["token"], filepath.Join(dir, "token")) ||
		!strings.Contains(printed["try"], `-H "Authorization: Bearer $HEADROOM_API_KEY"`) {
		t.Fatalf("output %q; %s", printed, errOut.String())
	}
	for _, secret := range []string{"it's a key", token} {
		if strings.Contains(fmt.Sprint(printed)+errOut.String(), secret) {
			t.Errorf("the output has the secret %s: %q; %s", secret, printed, errOut.String())
		}
	}
	get := func(url, header, value string, status int) string {
		t.Helper()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		r.Header.Set(header, value)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != status {
			t.Errorf("%s with %s: %d %s; want %d", url, header, answer.StatusCode, text, status)
		}
		return string(text)
	}
	if text := get(endpoint+"/models", "Authorization", "Bearer it's a key",
		200); !strings.Contains(text, "headroom-demo") {
		t.Errorf("models: %s", text)
	}
	get(endpoint+"/models", "X-None", "", 401)
	get(endpoint+"/models", "X-Headroom-Token", token, 200) // the web UI's chat needs no key
	var state struct {
		Engine   struct{ Status, Model string }
		Endpoint struct{ URL, UIURL string }
	}
	if err := json.Unmarshal([]byte(get(base+"control/state", "X-Headroom-Token", token, 200)),
		&state); err != nil {
		t.Fatal(err)
	}
	if state.Engine.Status != "ready" || state.Engine.Model != "headroom-demo" ||
		state.Endpoint.URL != endpoint || state.Endpoint.UIURL != base {
		t.Errorf("state %+v, endpoint %s, page %s", state, endpoint, base)
	}
	// An open page must not delay the shutdown.
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet,
		base+"control/events?token="+token, nil)
	events, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	if _, err := events.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the server does not stop")
	}
}

func TestPortTaken(t *testing.T) {
	isolate(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	code, _, errOut := headroom("", "serve", "--port", fmt.Sprint(port))
	if code != 1 || !strings.Contains(errOut, fmt.Sprintf("Port %d is taken", port)) ||
		!strings.Contains(errOut, "--port 0") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestOpenToTheNetwork: a server that others can reach does not start without an API key, unless
// that is asked for. The key may come from a file.
func TestOpenToTheNetwork(t *testing.T) {
	home := isolate(t)
	for _, address := range []string{"", "0.0.0.0"} { // "" means all addresses
		if o := (service.Options{Listen: address}); o.CheckOpen() == nil {
			t.Fatalf("a server on %q may start without a key", address)
		}
	}
	code, _, errOut := headroom("", "serve", "--host", "0.0.0.0", "--port", "0")
	if code != 1 || !strings.Contains(errOut, "--api-key-file") ||
		!strings.Contains(errOut, "headroom keys add") ||
		!strings.Contains(errOut, "HEADROOM_API_KEY") || !strings.Contains(errOut, "--no-api-key") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	key := filepath.Join(home, "key")
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		want       string // in the error; "": none
	}{
		{"a key", "s3cret\n", 0o600, ""},
		{"readable by others", "s3cret", 0o644, ""},
		{"empty", "\n", 0o600, "does not have one line"},
		{"two lines", "a\nb", 0o600, "does not have one line"},
		{"too long", strings.Repeat("x", 5000), 0o600, "the limit is 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_ = os.Remove(key)
			if err := os.WriteFile(key, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			before := slog.Default()
			defer slog.SetDefault(before)
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			serve := &Serve{APIKeyFile: key}
			err := serve.readKey()
			if c.want == "" && (err != nil || serve.APIKey != "s3cret") ||
				c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("key %q, %v; expected %q", serve.APIKey, err, c.want)
			}
			if warned := strings.Contains(log.String(), "chmod 600"); warned != (c.mode == 0o644) {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
	for _, key := range []string{" ", "k\n", "\tk"} { // no header can have them
		if err := (&Serve{APIKey: key}).readKey(); err == nil {
			t.Errorf("key %q: no error", key)
		}
	}
	named, err := keys.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if o := (service.Options{Listen: "0.0.0.0", Keys: named}); o.CheckOpen() == nil {
		t.Error("a server may start with an empty list of keys")
	}
	if _, _, err := named.Add("laptop", keys.Limits{}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []service.Options{{Listen: "0.0.0.0", APIKey: "k"},
		{Listen: "0.0.0.0", Keys: named},
		{Listen: "0.0.0.0", NoAPIKey: true}, {Listen: "127.0.0.1"}} {
		// Only the check is tested: nothing listens beyond loopback here.
		if err := o.CheckOpen(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
