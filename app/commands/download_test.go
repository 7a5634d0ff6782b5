package commands

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/library"
	"headroom/engine"
)

// demoHub serves the demo model as demo/model. Before it sends a file's contents, it calls the
// function with the request.
func demoHub(t *testing.T, before func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	return hubOf(t, "demo/model", before)
}

// hubOf serves the demo model under that name.
func hubOf(t *testing.T, name string, before func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	return hubOfFolder(t, demoFolder(t, filepath.Join(t.TempDir(), "m")), name, before)
}

// hubOfFolder serves the files of a folder as a model of that name.
func hubOfFolder(t *testing.T, dir, name string,
	before func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, file, ok := strings.Cut(r.URL.Path, "/"+name+"/resolve/"); ok {
			_, file, _ = strings.Cut(file, "/")
			info, err := os.Stat(filepath.Join(dir, file))
			if err != nil || info.Size() > 1<<30 { // TestOfferOfTooMuch lists one, and fetches none
				http.NotFound(w, r)
				return
			}
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				http.NotFound(w, r)
				return
			}
			sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(text)), text...))
			w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
			if r.Method == "GET" && before != nil {
				before(w, r)
			}
			http.ServeFile(w, r, filepath.Join(dir, file))
			return
		}
		switch r.URL.Path {
		case "/api/models":
			_, _ = w.Write([]byte(`[{"id":"demo/model","downloads":7,"tags":["mlx"],"config":{"model_type":"qwen3_5_moe"}},{"id":"demo/other","config":{"model_type":"strange"}}]`))
		case "/api/models/" + name + "/revision/main":
			var siblings []map[string]any
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				info, _ := e.Info()
				siblings = append(siblings,
					map[string]any{"rfilename": e.Name(), "size": info.Size()})
			}
			_ = json.NewEncoder(w).Encode(
				map[string]any{"sha": strings.Repeat("c0de", 10),
					"siblings": append(siblings,
						map[string]any{"rfilename": "picture.png", "size": 3})})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestModelsSearch(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom("", "models", "search", "--endpoint", demoHub(t, nil), "demo")
	if code != 0 || !strings.Contains(out,
		"demo/model  qwen3_5_moe   MLX           7          yes\n") ||
		!strings.Contains(out, "demo/other  strange       Hugging Face  0          no\n") {
		t.Errorf("exit %d, %q, %s", code, out, errOut)
	}
}

// TestModelsDownload downloads a model into the hub cache. The list shows it first as downloading,
// then as ready.
func TestModelsDownload(t *testing.T) {
	home := isolate(t)
	var downloading atomic.Bool
	l := library.New([]string{filepath.Join(home, ".cache", "huggingface", "hub")},
		engine.Options{}, engine.Describe)
	t.Setenv("HF_ENDPOINT", demoHub(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=8388608-") {
			models := l.Scan()
			downloading.Store(len(models) == 2 && models[1].ID == "demo/model" &&
				models[1].State == library.Downloading)
		}
	}))
	code, out, errOut := headroom("", "models", "download", "--list", "demo/model")
	if code != 0 || !strings.Contains(out, "3 B      picture.png\n") ||
		!strings.Contains(out, "the model needs the files marked *") {
		t.Errorf("list: exit %d, %q, %s", code, out, errOut)
	}
	code, out, errOut = headroom("", "models", "download", "demo/model")
	if code != 0 || !strings.HasPrefix(out, "demo/model: "+home) {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	if !downloading.Load() {
		t.Error("the list did not show it as downloading")
	}
	if code, out, _ := headroom("", "models"); code != 0 ||
		!strings.Contains(out, "\ndemo/model  ") {
		t.Errorf("it is not listed: %s", out)
	}
	if code, out, errOut := headroom("", "run", "demo/model", question); code != 0 ||
		!strings.Contains(out, "keys and values") {
		t.Errorf("it does not run: exit %d, %q, %s", code, out, errOut)
	}
	if code, _, errOut := headroom("", "models", "download", "demo/gone"); code != 1 ||
		!strings.Contains(errOut, "The hub has no such repository or file (demo/gone)") {
		t.Errorf("no such model: exit %d, %s", code, errOut)
	}
	if code, _, errOut := headroom("", "models", "download", "../x"); code != 1 ||
		!strings.Contains(errOut, "is not the name of a repository") {
		t.Errorf("no name: exit %d, %s", code, errOut)
	}
}

func TestModelsToken(t *testing.T) {
	isolate(t)
	t.Setenv("PATH", t.TempDir()) // no keychain
	t.Setenv("HF_TOKEN", "")
	if code, out, errOut := headroom("hf_abc\n", "models", "token"); code != 0 ||
		out != "The token is in the token file of Hugging Face's tools.\n" {
		t.Errorf("exit %d, %q, %s", code, out, errOut)
	}
	if code, _, errOut := headroom("", "models", "token"); code != 1 ||
		!strings.Contains(errOut, "There is already a token") {
		t.Errorf("empty input: exit %d, %s", code, errOut)
	}
	if code, out, _ := headroom("", "models", "token", "--remove"); code != 0 ||
		out != "The saved token was removed.\n" {
		t.Errorf("remove: exit %d, %q", code, out)
	}
}

// TestSlowDownloadIsNotSilent: without a terminal, a command that waits for the hub writes a line
// from time to time.
func TestSlowDownloadIsNotSilent(t *testing.T) {
	isolate(t)
	defer func(before time.Duration) { reportEvery = before }(reportEvery)
	reportEvery = time.Millisecond
	hub := demoHub(t, func(http.ResponseWriter, *http.Request) {
		time.Sleep(300 * time.Millisecond) // longer than watchJob waits
	})
	code, _, errOut := headroom("", "models", "download", "demo/model", "--endpoint", hub)
	if code != 0 || !strings.Contains(errOut, "demo/model: ") || strings.Contains(errOut, "\x1b") {
		t.Errorf("exit %d, stderr %q", code, errOut)
	}
}
