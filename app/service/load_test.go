package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/settings"
	"headroom/engine"
)

// loadModels are the models of TestManyClients: the bundled one and three tiny ones.
var loadModels = []string{"headroom-demo", "llama", "qwen3", "gemma2"}

// TestManyClients: clients ask four models at random, whole and streamed. No request is lost, and
// every answer is the one that the model gives alone. While there is memory for all, each model is
// loaded once. Then there is memory for three of them, and they take turns: every model answers,
// and after the first three loads at most a quarter of the time goes into loading. With
// HEADROOM_LONG there are 64 clients for ten minutes.
func TestManyClients(t *testing.T) {
	clients, each := 16, 2*time.Second
	if os.Getenv("HEADROOM_LONG") != "" {
		clients, each = 64, 5*time.Minute
	}
	l := newLoad(t)
	l.askAlone()
	l.loads.Store(0)
	l.loading.Store(0)

	l.run(clients, each, 0)
	l.report("with memory for all", each)
	if n := l.loads.Load(); n != 0 {
		t.Errorf("%d models were loaded although all were there", n)
	}

	l.s.Host.Stop()
	l.limit.Store(l.leastBytes() - 1)
	l.loads.Store(0)
	l.loading.Store(0)
	begin, least := time.Now(), int64(len(loadModels)+2)
	l.run(clients, each, least)
	took, n := time.Since(begin), l.loads.Load()
	l.report("with memory for three", took)
	// The model that was loaded last has not had its time yet.
	loading := time.Duration(l.loading.Load()) * time.Duration(n-4) / time.Duration(n-3)
	if n < least || loading > took/4 {
		t.Errorf("%d models were loaded, which took %s", n, loading)
	}
	for i, name := range loadModels {
		if l.answers[i].Load() == 0 {
			t.Errorf("%s has answered nobody", name)
		}
	}
}

// load is a service with four models, and its clients.
type load struct {
	t       *testing.T
	s       *Service
	library *library.Library
	options engine.Options
	limit   atomic.Int64 // of the memory of all models

	loads   atomic.Int64 // loaded models
	loading atomic.Int64 // time.Duration of loading them, except the first three

	alone   [][]string // the text of each question of each model
	answers []atomic.Int64
	slowest atomic.Int64 // time.Duration of the slowest answer
}

// questions is the number of questions for each model.
const questions = 12

func newLoad(t *testing.T) *load {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, home)
	}
	was := slog.Default() // two lines for each of many requests
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(was) })
	l := &load{t: t, answers: make([]atomic.Int64, len(loadModels)),
		alone: make([][]string, len(loadModels))}
	const plenty = 1 << 40
	l.limit.Store(plenty)
	root := t.TempDir()
	for _, name := range loadModels[1:] {
		plantTiny(t, name, filepath.Join(root, name))
	}
	// With these options the memory of a model hardly depends on how much there is.
	l.options = engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 1024,
		KeptStates: 4}
	l.library = library.New([]string{root}, l.options, engine.Describe)
	s, err := New(Options{Listen: "127.0.0.1",
		NewHost: func(*settings.File) *host.Host {
			return host.New(host.Options{
				Library: l.library,
				Engine:  func(string) engine.Options { return l.options },
				Meter: memory.NewMeter(func([]int) (memory.Reading, error) {
					return memory.Reading{TotalBytes: plenty, AvailableBytes: plenty,
						WiredLimitBytes: l.limit.Load()}, nil
				}),
				Requests: func() host.RequestRules { return host.RequestRules{Load: true} },
				Open:     l.open,
			})
		},
		NewMover: func(*host.Host, *settings.File) (*cache.Mover, error) {
			return nil, fmt.Errorf("not in this test")
		}})
	if err != nil {
		t.Fatal(err)
	}
	l.s = s
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return l
}

// open opens a model. It takes a tenth of a second more, as if the model were larger.
func (l *load) open(ctx context.Context, src engine.Source, o engine.Options) (host.Engine,
	error) {
	begin := time.Now()
	defer func() {
		if l.loads.Add(1) >= int64(len(loadModels)) {
			l.loading.Add(int64(time.Since(begin)))
		}
	}()
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
	e, err := engine.Open(ctx, src, o)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// plantTiny makes the folder of a tiny model, with the tokenizer of the bundled one.
func plantTiny(t *testing.T, architecture, dir string) {
	t.Helper()
	tiny := filepath.Join("../../engine/models/testdata/tiny", architecture)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"config.json": tiny, "model.safetensors": tiny,
		"tokenizer.json": "../demo/model"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// askAlone asks every question of every model, one after another, and keeps the answers. It leaves
// all models loaded.
func (l *load) askAlone() {
	for i := range loadModels {
		for q := range questions {
			text, err := l.ask(i, q, false)
			if err != nil || text == "" {
				l.t.Fatalf("%s, question %d: %q, %v", loadModels[i], q, text, err)
			}
			l.alone[i] = append(l.alone[i], text)
		}
	}
}

// run runs clients for a time, and until that many models were loaded.
func (l *load) run(clients int, d time.Duration, loads int64) {
	for i := range l.answers {
		l.answers[i].Store(0)
	}
	l.slowest.Store(0)
	deadline := time.Now().Add(d)
	var all sync.WaitGroup
	for c := range clients {
		r := rand.New(rand.NewPCG(1, uint64(c)))
		all.Go(func() {
			for (time.Now().Before(deadline) || l.loads.Load() < loads) && !l.t.Failed() {
				i, q, stream := r.IntN(len(loadModels)), r.IntN(questions), r.IntN(2) == 0
				begin := time.Now()
				text, err := l.ask(i, q, stream)
				if err != nil {
					l.t.Errorf("%s, question %d: %v", loadModels[i], q, err)
				} else if text != l.alone[i][q] {
					l.t.Errorf("%s, question %d: got %q, alone %q", loadModels[i], q, text,
						l.alone[i][q])
				}
				l.answers[i].Add(1)
				for took := int64(time.Since(begin)); ; {
					was := l.slowest.Load()
					if took <= was || l.slowest.CompareAndSwap(was, took) {
						break
					}
				}
			}
		})
	}
	all.Wait()
}

func (l *load) report(when string, took time.Duration) {
	var parts []string
	total := int64(0)
	for i, name := range loadModels {
		n := l.answers[i].Load()
		total += n
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	l.t.Logf("%s: %d answers in %s (%s), the slowest %s; %d loads; those after the "+
		"first three took %s", when, total,
		took.Round(time.Second), strings.Join(parts, ", "),
		time.Duration(l.slowest.Load()).Round(time.Millisecond), l.loads.Load(),
		time.Duration(l.loading.Load()).Round(time.Millisecond))
}

// leastBytes returns the memory that all models need at least.
func (l *load) leastBytes() (sum int64) {
	o := l.options
	o.AvailableBytes = 1
	for _, m := range l.library.Scan() {
		d, err := l.library.DescribeWith(m, o)
		if err != nil {
			l.t.Fatal(err)
		}
		sum += d.Need.TotalBytes()
	}
	return sum
}

// ask sends a question to a model and returns the text of the answer.
func (l *load) ask(model, question int, stream bool) (string, error) {
	prompt := make([]int, 8+4*question) // tokens that all models have
	for i := range prompt {
		prompt[i] = 5 + (i*7+question)%90
	}
	body, err := json.Marshal(map[string]any{"model": loadModels[model], "prompt": prompt,
		"max_tokens": 8 + question, "temperature": 0.8, "seed": question, "stream": stream,
		"ignore_eos": true})
	if err != nil {
		return "", err
	}
	response, err := http.Post("http://"+l.s.Address+"/v1/completions", "application/json",
		bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(response.Body)
		return "", fmt.Errorf("status %d: %s", response.StatusCode, data)
	}
	if !stream {
		return textOf(json.NewDecoder(response.Body))
	}
	var text strings.Builder
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if data == "[DONE]" {
			return text.String(), nil
		}
		if !ok {
			continue
		}
		part, err := textOf(json.NewDecoder(strings.NewReader(data)))
		if err != nil {
			return "", err
		}
		text.WriteString(part)
	}
	return "", fmt.Errorf("the stream ended without [DONE], after %q", &text)
}

// textOf returns the text of an answer or of an event.
func textOf(d *json.Decoder) (string, error) {
	var answer struct {
		Choices []struct{ Text string }
		Error   *struct{ Message string }
	}
	if err := d.Decode(&answer); err != nil {
		return "", err
	}
	if answer.Error != nil {
		return "", fmt.Errorf("%s", answer.Error.Message)
	}
	if len(answer.Choices) == 0 {
		return "", nil
	}
	return answer.Choices[0].Text, nil
}
