package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
)

// answered is the result of one turn of a conversation.
type answered struct {
	text     string
	logprobs []float32
	usage    engine.Usage
}

// ask continues a conversation by one turn. history is the text so far. ask appends the question
// and the answer to it, in the form that the template renders.
func ask(t *testing.T, e *engine.Engine, history *string, question string) (a answered) {
	t.Helper()
	*history += "<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n"
	s := submit(t, e, engine.Request{Prompt: encode(e, *history+"<think>\n\n</think>\n\n"),
		MaxTokens: 40})
	for {
		ev, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		a.text += ev.Text
		if ev.Type == engine.Token {
			a.logprobs = append(a.logprobs, ev.Logprob)
		}
		a.usage = ev.Usage
	}
	*history += a.text + "<|im_end|>\n" // without the empty think block
	return a
}

func system(text string, times int) string {
	return "<|im_start|>system\n" + strings.Repeat(text, times) + "<|im_end|>\n"
}

func openStore(t *testing.T, dir string) *engine.BlockStore {
	t.Helper()
	s, err := engine.OpenBlockStore(dir, engine.BlockStoreOptions{MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var questions = []string{"What is a KV cache?", "What is 63 + 29?", "Why are models quantized?",
	"Sort these words: pear, drum, banana, plum"}

// everyFormat returns options for every format of keys and values that --kv-format and --kv-bits
// can select, with all sizes of groups, and every format of states.
func everyFormat() (all []engine.Options) {
	for _, name := range []string{"f32", "f16", "bf16", "affine", "q8_0", "q4_0"} {
		all = append(all, engine.Options{KVFormat: name},
			engine.Options{KVFormat: name, StateFormat: "bf16", KVStartTokens: 512})
	}
	for _, bits := range []string{"2", "3", "4", "5", "6", "8", "(8, 4)", "(3, 3)", "(4, 2)",
		"(2, 8)"} {
		all = append(all, engine.Options{KVBits: bits},
			engine.Options{KVBits: bits, KVBoundaryLayers: -1, StateFormat: "int8"})
	}
	for _, size := range []string{"32", "64", "128"} {
		all = append(all, engine.Options{KVFormat: "affine", KVGroupSize: size})
	}
	return all
}

// TestRestart continues a conversation across restarts, and then a conversation that diverges from
// it, in every cache format. Each log-probability must have the same bits whether the prefix comes
// from disk, comes from memory or is computed.
func TestRestart(t *testing.T) {
	options := []engine.Options{{}, {KVFormat: "q4_0"}, {KVBits: "(6, 3)"}, {StateFormat: "bf16"},
		{KVStartTokens: 512}}
	switch {
	case testing.Short():
		options = options[:1]
	case long():
		options = everyFormat()
	}
	for _, o := range options {
		t.Run(fmt.Sprintf("%s%s%s %d %s %d", o.KVFormat, o.KVBits, o.KVGroupSize,
			o.KVBoundaryLayers, o.StateFormat, o.KVStartTokens),
			func(t *testing.T) {
				dir := t.TempDir()
				cold := o
				cold.NoPrefixCache = true
				reference := open(t, cold)
				want, history := []answered{}, system("Answer briefly. ", 120)
				for _, q := range questions {
					want = append(want, ask(t, reference, &history, q))
				}
				forked := system("Answer briefly. ", 120)
				wantForked := ask(t, reference, &forked, "What is a fork?")

				history = system("Answer briefly. ", 120)
				var e *engine.Engine
				for i, q := range questions {
					if i%2 == 0 { // restart after every second turn
						o.BlockStore = openStore(t, dir)
						e = open(t, o)
					}
					got := ask(t, e, &history, q)
					if got.text != want[i].text || !slices.Equal(got.logprobs, want[i].logprobs) {
						t.Errorf("turn %d: %q, expected %q with the same log-probabilities", i,
							got.text, want[i].text)
					}
					if stored := got.usage.StoredTokens; (stored > 0) != (i == 2) {
						t.Errorf("turn %d: %d of %d prompt tokens were read from disk, expected "+
							"some in turn 2 and none in the others", i, stored,
							got.usage.PromptTokens)
					}
					computed := got.usage.PromptTokens - got.usage.CachedTokens
					if i > 0 && computed > 64 {
						t.Errorf("turn %d: %d of %d prompt tokens computed, expected at most 64",
							i, computed, got.usage.PromptTokens)
					}
					if i%2 == 1 {
						idle(t, e)
						e.Close()
						o.BlockStore.Close()
					}
				}

				o.BlockStore = openStore(t, dir)
				e = open(t, o)
				forked = system("Answer briefly. ", 120)
				got := ask(t, e, &forked, "What is a fork?")
				if got.text != wantForked.text ||
					!slices.Equal(got.logprobs, wantForked.logprobs) ||
					got.usage.StoredTokens == 0 {
					t.Errorf("fork: %q with %d tokens from disk, expected %q and some tokens",
						got.text, got.usage.StoredTokens, wantForked.text)
				}
				e.Close()
				if err := o.BlockStore.Check(); err != nil {
					t.Error(err)
				}
			})
	}
}

// TestDamagedBlocks checks that a damaged file is treated as a miss. The answer must have the same
// bits, and the file must be written again.
func TestDamagedBlocks(t *testing.T) {
	dir := t.TempDir()
	history := system("Answer briefly. ", 150)
	o := engine.Options{BlockStore: openStore(t, dir)}
	e := open(t, o)
	want := ask(t, e, &history, questions[0])
	e.Close()
	o.BlockStore.Close()

	files, err := filepath.Glob(filepath.Join(dir, "blocks", "*", "*.safetensors"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files were written, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	repaired := false
	for restart := 0; restart < 5 && !repaired; restart++ {
		o.BlockStore = openStore(t, dir)
		e = open(t, o)
		history = system("Answer briefly. ", 150)
		got := ask(t, e, &history, questions[0])
		if got.text != want.text || !slices.Equal(got.logprobs, want.logprobs) {
			t.Errorf("restart %d: %q, expected %q with the same log-probabilities", restart,
				got.text, want.text)
		}
		if repaired = got.usage.StoredTokens > 0; repaired && restart == 0 {
			t.Errorf("%d tokens were read from damaged files", got.usage.StoredTokens)
		}
		e.Close()
		if err := o.BlockStore.Check(); err != nil {
			t.Errorf("restart %d: %v", restart, err)
		}
		o.BlockStore.Close()
	}
	if !repaired {
		t.Error("no tokens were read from disk after any restart")
	}
}

// tinySource returns one of the tiny models with random weights. It has the tokenizer of the demo
// model. The tests send token ids, so the choice of the tokenizer does not matter.
func tinySource(t testing.TB, name string) engine.Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir,
		os.DirFS(filepath.Join("models", "testdata", "tiny", name))); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := demoSource(t).ReadFile("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokenizer, 0o600); err != nil {
		t.Fatal(err)
	}
	return engine.Source{Dir: dir}
}

// TestTinyRestart runs a long prompt, its continuation and a fork of it in every kind of cache. The
// prefixes are computed, come from memory, or come from disk.
func TestTinyRestart(t *testing.T) {
	models, err := os.ReadDir(filepath.Join("models", "testdata", "tiny"))
	if err != nil || len(models) == 0 {
		t.Fatalf("%d tiny models, %v", len(models), err)
	}
	for i, m := range models {
		// Every third model in one format, and each in all of them with HEADROOM_LONG.
		formats := []string{"", "f16", "q8_0", "q4_0"}
		switch {
		case testing.Short():
			formats = formats[:1]
		case !long() && i%3 > 0: // every third model, by turns
			continue
		case !long():
			formats = formats[i/3%len(formats):][:1]
		}
		for _, format := range formats {
			t.Run(m.Name()+"_"+format, func(t *testing.T) {
				o := engine.Options{KVFormat: format, ContextTokens: 1200, MaxSequences: 2,
					ChunkTokens: 128}
				testRestarts(t, tinySource(t, m.Name()), o)
				if format == "" && (i == 0 || !testing.Short()) {
					ring, start := o, o
					ring.MaxKVTokens, start.KVStartTokens = 64, 512
					testRestarts(t, tinySource(t, m.Name()), ring)
					testRestarts(t, tinySource(t, m.Name()), start)
				}
			})
		}
	}
}

// testRestarts checks that three prompts get the same log-probabilities without a prefix cache,
// with one in memory, and with one on disk and a restart after each prompt.
func testRestarts(t *testing.T, src engine.Source, o engine.Options) {
	r := rand.New(rand.NewPCG(3, 5))
	random := func(n int) (ids []int32) {
		for range n {
			ids = append(ids, r.Int32N(200))
		}
		return ids
	}
	head, more, other := random(600), random(70), random(50)
	head[560] = 2 // an end token, where a state is kept and a fork can resume
	// runPrompts runs three prompts that all begin with head. It calls restart before the first
	// prompt and after each of them.
	runPrompts := func(o engine.Options,
		restart func(e *engine.Engine) *engine.Engine) (logprobs [][]float32,
		usage []engine.Usage) {
		e := restart(nil)
		prompt := head
		for i := range 3 {
			s := submit(t, e, engine.Request{Prompt: prompt, MaxTokens: 20, IgnoreEOS: true})
			var answer []int32
			var turn []float32
			for ev, err := s.Next(context.Background()); err == nil; ev,
				err = s.Next(context.Background()) {
				if ev.Type == engine.Token {
					turn, answer = append(turn, ev.Logprob), append(answer, ev.Token)
				} else if ev.Type == engine.Done {
					usage = append(usage, ev.Usage)
				}
			}
			logprobs = append(logprobs, turn)
			if prompt = slices.Concat(head, answer, more); i == 1 {
				prompt = slices.Concat(head, other)
			}
			e = restart(e)
		}
		return logprobs, usage
	}
	start := func(o engine.Options) *engine.Engine { return openModel(t, src, o) }
	keep := func(o engine.Options) func(*engine.Engine) *engine.Engine {
		return func(e *engine.Engine) *engine.Engine {
			if e == nil {
				return start(o)
			}
			return e
		}
	}
	cold, memory := o, o
	cold.NoPrefixCache = true
	want, _ := runPrompts(cold, keep(cold))
	inMemory, memoryUsage := runPrompts(memory, keep(memory))
	dir := t.TempDir()
	fromDisk, diskUsage := runPrompts(o, func(e *engine.Engine) *engine.Engine {
		if e != nil {
			e.Close()
		}
		o.BlockStore = openStore(t, dir)
		return start(o)
	})
	for i := range want {
		if !slices.Equal(inMemory[i], want[i]) || !slices.Equal(fromDisk[i], want[i]) {
			t.Errorf("prompt %d: log-probabilities are correct from memory: %t, from disk: %t", i,
				slices.Equal(inMemory[i], want[i]), slices.Equal(fromDisk[i], want[i]))
		}
		if i > 0 && (memoryUsage[i].CachedTokens == 0 || memoryUsage[i].StoredTokens != 0 ||
			diskUsage[i].StoredTokens < 500) {
			t.Errorf("prompt %d has %d tokens: %d of them came from memory, and after a restart "+
				"%d from disk, expected some and at least 500", i,
				diskUsage[i].PromptTokens, memoryUsage[i].CachedTokens, diskUsage[i].StoredTokens)
		}
	}
}
