package hub

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/app/jobs"
	"headroom/engine/problem"
)

func TestSearch(t *testing.T) {
	var query string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		_, _ = w.Write([]byte(`[{"id":"org/a","downloads":12,"likes":3,"tags":["mlx","x","license:apache-2.0"],"safetensors":{"parameters":{"U32":1000,"BF16":10}},"gated":"auto","lastModified":"2026-01-02T03:04:05.000Z","config":{"model_type":"qwen3"}},
			{"id":"../../etc/passwd"},{"id":"org/b","gated":false,"config":null,"safetensors":{"parameters":{"Q9":3}}}]`))
	}))
	defer server.Close()
	c, err := New(Options{Cache: t.TempDir(), Endpoint: server.URL + "/mirror/"})
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Search(context.Background(), Query{Words: "qwen & co", Owner: "o", Limit: 7})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || found[0].ID != "org/a" || found[0].Downloads != 12 || !found[0].Gated ||
		found[0].ModelType != "qwen3" || found[0].UpdatedAt.Year() != 2026 ||
		!slices.Equal(found[0].Tags[:2], []string{"mlx", "x"}) || found[1].ID != "org/b" ||
		found[1].Gated || found[0].Licence != "apache-2.0" || found[0].SizeBytes != 4020 ||
		found[1].Licence != "" || found[1].SizeBytes != 0 {
		t.Errorf("found %+v", found)
	}
	for _, want := range []string{"search=qwen+%26+co", "limit=7", "filter=safetensors", "author=o",
		"expand=safetensors", "expand=config"} {
		if !strings.Contains(query, want) {
			t.Errorf("the query is %s, want %s in it", query, want)
		}
	}
}

// TestConfig fetches the config.json of a repository, once.
func TestConfig(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		switch r.URL.Path {
		case "/o/m/resolve/main/config.json":
			_, _ = w.Write([]byte(`{"a": 1}`))
		case "/o/cut/resolve/main/config.json":
			_, _ = w.Write([]byte(`{"a": `))
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	c, err := New(Options{Cache: t.TempDir(), Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Config(t.Context(), "o/m", "")
	if err != nil || string(text) != `{"a": 1}` {
		t.Errorf("%s, %v", text, err)
	}
	for _, id := range []string{"o/cut", "o/gone", "../x"} {
		if text, err := c.Config(t.Context(), id, ""); err == nil {
			t.Errorf("%s: %s", id, text)
		}
	}
	if requests != 3 {
		t.Errorf("%d requests", requests)
	}
}

// TestUnreachable: a person without a connection reads words that help, and not those of the
// system, which are in the details.
func TestUnreachable(t *testing.T) {
	lookup := &url.Error{Op: "Get", URL: "https://x/?signature=secret",
		Err: &net.OpError{Op: "dial", Net: "tcp",
			Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}}
	refused := &net.OpError{Op: "dial", Net: "tcp",
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err      error
		endpoint string
		download bool
		want     string
	}{
		{lookup, "", false, "Hugging Face cannot be reached: this computer seems to be offline. " +
			"Check your internet connection, then try again."},
		{lookup, "", true, "Hugging Face cannot be reached: this computer seems to be offline. " +
			"Check your internet connection, then resume: what was downloaded is kept."},
		{refused, "http://127.0.0.1:9", false, "127.0.0.1:9 cannot be reached: nothing answers " +
			"at its address. Check your internet connection, then try again."},
		{os.ErrDeadlineExceeded, "", false, "Hugging Face cannot be reached: it did not answer " +
			"in time. Check your internet connection, then try again."},
	} {
		client, err := New(Options{Cache: t.TempDir(), Endpoint: c.endpoint})
		if err != nil {
			t.Fatal(err)
		}
		p := problem.From(client.unreachable(c.err, c.download))
		if p.Error() != c.want {
			t.Errorf("%v: %s, want %s", c.err, p, c.want)
		}
		if strings.Contains(p.Err.Error(), "secret") || p.Err.Error() == p.Why {
			t.Errorf("the details are %v", p.Err)
		}
	}
}

func TestRefusals(t *testing.T) {
	cases := []struct {
		name   string
		status int
		code   string // X-Error-Code
		want   problem.Code
	}{
		{"gated", 403, "GatedRepo", problem.Forbidden},
		{"private or missing repository", 401, "RepoNotFound", problem.Unauthorized},
		{"missing", 404, "", problem.NotFound},
		{"unexpected status", 418, "", problem.Upstream},
	}
	for _, c := range cases {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Error-Code", c.code)
			w.WriteHeader(c.status)
		}))
		client, err := New(Options{Cache: t.TempDir(), Endpoint: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Repository(context.Background(), "o/m", "")
		if p := problem.From(err); p.Code != c.want || !strings.Contains(p.Message, "(o/m)") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		server.Close()
	}
}

// Contradictory answers and unsafe names are refused, and nothing is written to the cache.
func TestInvalidAnswers(t *testing.T) {
	cases := []struct {
		name   string
		change func(listing map[string]any)
		want   string
	}{
		{"no commit", func(l map[string]any) { l["sha"] = "../../x" }, "names the commit"},
		{"a path outside the repository", func(l map[string]any) {
			sibling(l, 0)["rfilename"] = "../../../.ssh/authorized_keys"
		}, "lists the file"},
		{"an absolute path", func(l map[string]any) { sibling(l, 0)["rfilename"] = "/etc/passwd" },
			"lists the file"},
		{"a path with a newline", func(l map[string]any) { sibling(l, 0)["rfilename"] = "a\nb" },
			"lists the file"},
		{"one path twice", func(l map[string]any) {
			sibling(l, 0)["rfilename"] = "model.safetensors"
		}, "lists the file"},
		{"a negative size", func(l map[string]any) { sibling(l, 0)["size"] = -1 },
			"a size of -1 bytes"},
		{"a size that differs from the file's",
			func(l map[string]any) { sibling(l, 0)["size"] = 19 }, "but 19 in the list of files"},
		{"a checksum that differs from the file's",
			func(l map[string]any) { sibling(l, 0)["blobId"] = strings.Repeat("b", 40) },
			"but bbbb"},
		{"an unsupported model_type", func(l map[string]any) {
			l["config"] = map[string]any{"model_type": "strange"}
		}, "the architecture \"strange\""},
		{"a long answer", func(l map[string]any) {
			l["padding"] = strings.Repeat("x", maxAnswerBytes)
		}, "exceeds 33554432 bytes"},
		{"no weights", func(l map[string]any) {
			l["siblings"] = l["siblings"].([]map[string]any)[:1]
		}, "no .safetensors files"},
	}
	for _, c := range cases {
		f := newFakeHub(t, model())
		f.change = c.change
		job := f.download(f.client(func(o *Options) { o.Architectures = []string{"x"} }))
		if job.Err == nil || !strings.Contains(job.Err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, job.Err, c.want)
		}
		if entries, _ := os.ReadDir(filepath.Join(f.cache, "models--o--m")); len(entries) > 0 {
			t.Errorf("%s: the cache has %v", c.name, entries)
		}
	}
}

func sibling(listing map[string]any, i int) map[string]any {
	return listing["siblings"].([]map[string]any)[i]
}

// A part with another offset than requested is refused.
func TestWrongRange(t *testing.T) {
	f := newFakeHub(t, model())
	f.fault = func(w http.ResponseWriter, r *http.Request, n int) bool {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=48-") {
			r.Header.Set("Range", "bytes=0-15")
		}
		return false
	}
	if job := f.download(f.client()); job.Err == nil ||
		!strings.Contains(job.Err.Error(), "request for bytes from 48") {
		t.Errorf("error %v", job.Err)
	}
}

// A redirect from HTTPS to HTTP is refused.
func TestNoDowngrade(t *testing.T) {
	f := newFakeHub(t, model())
	secure := httptest.NewUnstartedServer(f.hub.Config.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that the client closes
	secure.StartTLS()
	defer secure.Close()
	c, err := New(Options{Cache: f.cache, Endpoint: secure.URL,
		Transport: secure.Client().Transport,
		sleep:     func(context.Context, time.Duration) error { return nil },
		free:      func(string) (int64, error) { return 1 << 40, nil }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Download(context.Background(), Request{ID: "o/m"}, new(jobs.Progress))
	if err == nil || !strings.Contains(err.Error(), "redirects from https") {
		t.Errorf("error %v", err)
	}
}

func TestTokenGoesOnlyToTheHub(t *testing.T) {
	cases := []struct {
		endpoint, address string
		want              bool
	}{
		{"https://huggingface.co", "https://huggingface.co/o/m", true},
		{"https://huggingface.co", "https://HuggingFace.co/o/m", true},
		{"https://huggingface.co", "http://huggingface.co/o/m", false},
		{"https://huggingface.co", "https://cdn.huggingface.co/o/m", false},
		{"https://huggingface.co", "https://huggingface.co:8443/o/m", false},
		{"http://mirror.example", "http://mirror.example/o/m", false},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9000/o/m", true},
		{"http://localhost:9000", "http://localhost:9000/o/m", true},
	}
	for _, c := range cases {
		client, err := New(Options{Cache: "x", Endpoint: c.endpoint})
		if err != nil {
			t.Fatal(err)
		}
		u, _ := client.endpoint.Parse(c.address)
		if got := client.mayHaveToken(u); got != c.want {
			t.Errorf("token for %s of the hub %s: %t", c.address, c.endpoint, got)
		}
	}
	for _, text := range []string{"huggingface.co", "ftp://x", "https://user:word@x", "https://x?q",
		"https://"} {
		if _, err := ParseEndpoint(text); problem.From(err).Code != problem.BadRequest {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestChoose(t *testing.T) {
	cases := []struct {
		name  string
		files string
		want  string // the chosen files, or part of the error
	}{
		{"MLX",
			"README.md config.json tokenizer.json tokenizer_config.json model.safetensors " +
				"chat_template.jinja .gitattributes",
			"config.json README.md chat_template.jinja tokenizer.json tokenizer_config.json " +
				"model.safetensors"},
		{"shards",
			"model-00002-of-00002.safetensors model-00001-of-00002.safetensors config.json " +
				"model.safetensors.index.json",
			"config.json model.safetensors.index.json model-00001-of-00002.safetensors " +
				"model-00002-of-00002.safetensors"},
		{"the same weights twice",
			"config.json consolidated.safetensors model.safetensors original/consolidated.00.pth",
			"config.json model.safetensors"},
		{"files of other programs",
			"config.json weights.safetensors onnx/model.onnx onnx/config.json tf_model.h5 " +
				"picture.png requirements.txt LICENSE merges.txt",
			"config.json LICENSE merges.txt weights.safetensors"},
		{"two chat templates", "chat_template.jinja additional_chat_templates/tool_use.jinja " +
			"additional_chat_templates/x.py templates/a.jinja config.json model.safetensors",
			"config.json additional_chat_templates/tool_use.jinja chat_template.jinja " +
				"model.safetensors"},
		{"a second file of weights", "config.json model.safetensors model-mtp.safetensors",
			"config.json model-mtp.safetensors model.safetensors"},
		{"GGUF", "config.json m.Q4_K_M.gguf", "in GGUF format"},
		{"PyTorch", "config.json pytorch_model.bin", "in PyTorch's format"},
		{"an adapter", "adapter_config.json adapters.safetensors", "no config.json"},
		{"nothing", "", "no .safetensors files"},
	}
	for _, c := range cases {
		var files []File
		for _, p := range strings.Fields(c.files) {
			files = append(files, File{Path: p})
		}
		chosen, err := Choose(files)
		var got []string
		for _, f := range chosen {
			got = append(got, f.Path)
		}
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		} else if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzRepository(f *testing.F) {
	f.Add([]byte(`{"sha":"0123456789abcdef0123456789abcdef01234567","siblings":[{"rfilename":"a/b.json","size":3,"lfs":{"sha256":"x","size":5}}]}`))
	f.Add([]byte(`{"sha":"0123456789abcdef0123456789abcdef01234567","siblings":[{"rfilename":"../x"}],"gated":"manual"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRepository(text)
		if err != nil {
			return
		}
		for _, file := range r.Files {
			if !filepath.IsLocal(file.Path) || file.Size < -1 || file.Size > maxFileBytes ||
				file.Sum != "" && !sumForm.MatchString(file.Sum) {
				t.Errorf("accepted %+v", file)
			}
		}
		_, _ = Choose(r.Files)
	})
}

func FuzzSearch(f *testing.F) {
	f.Add([]byte(`[{"id":"org/a","downloads":1e9,"gated":"auto"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, _ := parseSearch(text)
		for _, r := range found {
			if CheckID(r.ID) != nil {
				t.Errorf("accepted %q", r.ID)
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{`W/"abc"`, "../../x", "bytes 0-15/200", "120",
		"Mon, 02 Jan 2006 15:04:05 GMT", "abc.incomplete", "-9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if etag := parseEtag(text); etag != "" &&
			(!filepath.IsLocal(etag) || strings.ContainsAny(etag, "/\\\"") ||
				strings.HasSuffix(etag, incompleteSuffix)) {
			t.Errorf("etag %q", etag)
		}
		if d := retryAfter(text, time.Unix(0, 0)); d < 0 || d > maxRetryAfter {
			t.Errorf("wait %s", d)
		}
		if first, ok := rangeStart(text); ok && first < 0 {
			t.Errorf("range from %d", first)
		}
	})
}
