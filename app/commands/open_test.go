package commands

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/service"
	"headroom/engine"
)

// screen is a buffer that two goroutines may use.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.buf.String(), text)
}

// TestProgress loads a slow model. The bar names it, follows the progress, and is erased at the
// end.
func TestProgress(t *testing.T) {
	isolate(t)
	progress := make(chan float64)
	h := host.New(host.Options{
		Meter: &memory.Meter{}, Log: slog.New(slog.DiscardHandler),
		Library: library.New(nil, engine.Options{}, engine.Describe),
		Open: func(ctx context.Context, _ engine.Source, o engine.Options) (host.Engine, error) {
			for {
				select {
				case done, more := <-progress:
					if !more {
						return nil, errors.New("enough")
					}
					o.Progress(done)
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		},
	})
	defer h.Close()
	if err := h.Start(""); err != nil {
		t.Fatal(err)
	}
	var s screen
	finish := showProgress(h, &s)
	deadline := time.Now().Add(patience / 3)
	await := func(text string) {
		t.Helper()
		for !s.shows(text) {
			if time.Now().After(deadline) {
				t.Fatalf("the screen does not show %q: %q", text, s.buf.String())
			}
			time.Sleep(time.Millisecond)
		}
	}
	await("Loading headroom-demo")
	progress <- 0.5
	await("50%")
	close(progress)
	if err := h.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("Wait: %v", err)
	}
	finish()
	shown := s.buf.String()
	if last := shown[strings.LastIndexByte(shown, '\r')+1:]; strings.TrimSpace(
		strings.ReplaceAll(last, "\x1b[2K", "")) != "" {
		t.Errorf("the bar is left on the screen: %q", last)
	}
}

// TestNoProgressOfAFastLoad: a model that loads immediately gets no bar.
func TestNoProgressOfAFastLoad(t *testing.T) {
	isolate(t)
	h := (&ModelFlags{}).newHost(service.OpenSettings(), hostUse{})
	defer h.Close()
	var s screen
	showProgress(h, &s)()
	if s.buf.Len() != 0 {
		t.Errorf("drew %q", s.buf.String())
	}
}

// TestAdapterByName: a model with an adapter of the list answers as with the adapter's folder.
func TestAdapterByName(t *testing.T) {
	dir := filepath.Join(isolate(t), "models")
	tokenizer, err := os.ReadFile(filepath.Join("..", "demo", "model", "tokenizer.json"))
	engineDir := filepath.Join("..", "..", "engine")
	err = errors.Join(err, os.CopyFS(filepath.Join(dir, "mistral"),
		os.DirFS(filepath.Join(engineDir, "models", "testdata", "tiny", "mistral"))),
		os.WriteFile(filepath.Join(dir, "mistral", "tokenizer.json"), tokenizer, 0o600),
		os.CopyFS(filepath.Join(dir, "mistral", "style"),
			os.DirFS(filepath.Join(engineDir, "testdata", "adapters", "mistral_lora"))))
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for _, flags := range []string{"mistral", "mistral+style", "mistral --adapter " +
		filepath.Join(dir, "mistral", "style")} {
		args := append([]string{"run", "--models-dir", dir, "--ignore-chat-template", "--temp=0",
			"--max-tokens=12", "--model"}, strings.Fields(flags)...)
		code, out, errOut := headroom("", append(args, "a b c")...)
		if code != 0 {
			t.Fatalf("%s: exit %d, %s", flags, code, errOut)
		}
		name, _, _ := strings.Cut(flags, "/")
		answers[name] = out
	}
	if a := answers["mistral+style"]; a == answers["mistral"] ||
		a != answers["mistral --adapter "] {
		t.Errorf("the answers are %q", answers)
	}
	code, _, errOut := headroom("", "cache", "save", "--models-dir", dir, "--model",
		"mistral+style", "--prompt", "a b c", filepath.Join(dir, "saved"))
	if code != 1 || !strings.Contains(errOut, "without an adapter") {
		t.Errorf("cache save: exit %d, %s", code, errOut)
	}
}
