package commands

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
)

// TestAnswersDuringScan: with a thousand model folders, the address answers while the first of them
// is still being read. A request waits until the model has been found and loaded.
func TestAnswersDuringScan(t *testing.T) {
	isolate(t)
	root, folder := t.TempDir(), tinyFolder(t)
	for i := range 1000 {
		dir := filepath.Join(root, fmt.Sprint("m", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"config.json", "model.safetensors"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	c := &Serve{Model: folder}
	c.ModelsDir = []string{root}
	o := c.ModelFlags.ServiceOptions(ServiceUse{InProcess: true})
	o.Listen, o.Settings = "127.0.0.1", service.OpenSettings()
	scanning, goOn := make(chan struct{}, 1), make(chan struct{})
	hosts := make(chan *host.Host, 1)
	o.NewHost = func(s *settings.File) *host.Host {
		l := library.NewPerModel(c.ModelFlags.roots(s.Get()),
			func(id string) engine.Options { return c.ModelFlags.options(s.Get(), id) },
			func(src engine.Source, o engine.Options) (engine.Description, error) {
				select {
				case scanning <- struct{}{}:
				default:
				}
				<-goOn
				return engine.Describe(src, o)
			})
		h := host.New(host.Options{Library: l, Meter: &memory.Meter{},
			Watch: &library.WatchOptions{}, Requests: func() host.RequestRules {
				return host.RequestRules{Load: true, Wait: patience}
			}})
		hosts <- h
		return h
	}
	ended := make(chan error, 1)
	go func() { ended <- c.serve(ctx, o, &terminal{out: io.Discard, err: io.Discard}) }()
	h := <-hosts
	<-scanning
	get := func(path string) (status int, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, "GET", h.State().Endpoint.UIURL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	for h.State().Endpoint.UIURL == "" && ctx.Err() == nil { // the port is open already
		runtime.Gosched()
	}
	if _, body := get(""); !strings.Contains(body, "<title>Headroom") {
		t.Errorf("the page: %.200s", body)
	}
	if status, body := get("health"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "loading") {
		t.Errorf("health: %d %s", status, body)
	}
	if status, body := get("ready"); status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d %s", status, body)
	}
	answers := make(chan string, 1)
	go func() {
		answer, err := http.Post(h.State().Endpoint.URL+"/completions", "application/json",
			strings.NewReader(`{"prompt":[5],"max_tokens":1}`))
		if err != nil {
			answers <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		answers <- fmt.Sprint(answer.StatusCode, " ", string(text))
	}()
	if h.Listed() {
		t.Error("the scan has ended before the address answered")
	}
	close(goOn)
	if got := <-answers; !strings.HasPrefix(got, "200 ") {
		t.Errorf("the request got %.300s", got)
	}
	stop()
	<-ended
}
