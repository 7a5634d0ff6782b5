package worker

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"headroom/app/demo"
	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/tokenizer"
	"headroom/metal"
)

// envFault is the environment variable that makes a worker of this test binary misbehave.
const envFault = "HEADROOM_WORKER_FAULT"

// TestMain lets the test binary run as a worker, so that these tests use real processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Argument {
		if os.Getenv(envFault) == "gpu" {
			openGPU = func() (metal.Device, error) { panic("the driver is broken") }
		}
		openMetal = openGPUOf()
		os.Exit(Main())
	}
	if len(os.Args) == 2 && os.Args[1] == parentArgument {
		runParent()
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// timeout bounds every wait. It is much longer than any step takes.
const timeout = 60 * time.Second

func bundled() engine.Source {
	files, err := fs.Sub(demo.Files, "model")
	if err != nil {
		panic(err)
	}
	return engine.Source{FS: files}
}

// small are options for short conversations on the CPU.
var small = engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 2048,
	MaxSequences: 4, AvailableBytes: 4 << 30}

var quiet = slog.New(slog.DiscardHandler)

func open(t testing.TB, o engine.Options) *Model {
	t.Helper()
	m, err := Open(t.Context(), bundled(), o, Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// model is the part of *engine.Engine and *Model that these tests share.
type model interface {
	Tokenizer() *tokenizer.Tokenizer
	Template() *chat.Template
	Submit(engine.Request) (*engine.Stream, error)
}

// prompt renders a question with the model's chat template.
func prompt(t testing.TB, e model, question string) []int32 {
	t.Helper()
	text, err := e.Template().Render(context.Background(),
		chat.Input{Messages: []chat.Message{{Role: "user", Content: question}},
			AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	return e.Tokenizer().Encode(text, tokenizer.EncodeOptions{})
}

// read reads a stream up to Done and checks that no event follows.
func read(t testing.TB, s *engine.Stream) (events []engine.Event) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	for {
		e, err := s.Next(ctx)
		if err != nil {
			t.Errorf("after %d events: %v", len(events), err)
			return events
		}
		if events = append(events, e); e.Type == engine.Done {
			if e, err := s.Next(ctx); err == nil {
				t.Errorf("an event after Done: %+v", e)
			}
			return events
		}
	}
}

// text returns the text of events.
func text(events []engine.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.Text)
	}
	return b.String()
}

// within fails the test if c is not closed in time.
func within(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(timeout):
		t.Fatalf("timeout: waited until %s", what)
	}
}
