package engine_test

// A randomized test of the whole engine with one block store: requests with common prefixes,
// cancelled requests, eviction from memory and from disk, restarts, damaged files, a folder that
// disappears. Every answer must have the same bits as alone, and no memory may leak. If the test
// has not damaged files, the index of the store must match its folder at the end.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
)

type lives struct {
	t         *testing.T
	r         *rand.Rand
	dir       string
	o         engine.Options
	e         *engine.Engine
	alone     *engine.Engine
	expected  map[string][]float32 // the log-probabilities of the answer, by prompt
	talks     []string             // conversations to continue
	answered  int                  // number of requests
	cancelled int                  // number of requests
	cached    int                  // number of tokens
	stored    int                  // number of tokens
	damages   bool                 // the test damages files; some may still be damaged at the end
}

func TestLives(t *testing.T) {
	seeds, turns := uint64(2), 14
	switch {
	case testing.Short():
		seeds, turns = 1, 12
	case long():
		seeds, turns = 4, 100
	}
	var all lives // their sums: what a single life reads from disk depends on the time of writes
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			l := &lives{t: t, r: r, dir: t.TempDir(), damages: seed%2 == 1,
				expected: map[string][]float32{}}
			l.o = engine.Options{ContextTokens: 2048, MaxSequences: 3, KeptStates: 4 + r.IntN(6),
				ChunkTokens:      64 << r.IntN(3),
				KVFormat:         []string{"", "q4_0", "f16"}[r.IntN(3)],
				MemoryCacheBytes: int64(1+r.IntN(4)) << 20, PreferPrefill: r.IntN(2) == 0,
				PreloadBytes: int64(r.IntN(2)) << 24, Speculate: engine.SpeculateAuto}
			l.alone = open(t, engine.Options{NoPrefixCache: true, KVFormat: l.o.KVFormat})
			l.start()
			for i := range turns {
				if i%7 == 6 {
					l.comeBack()
				}
				l.turn()
			}
			l.stop()
			t.Logf("%d answers, %d tokens from memory, %d from disk, %d cancelled", l.answered,
				l.cached-l.stored, l.stored, l.cancelled)
			all.cached, all.stored = all.cached+l.cached, all.stored+l.stored
			all.cancelled += l.cancelled
		})
	}
	if !testing.Short() && (all.stored == 0 || all.cached == all.stored || all.cancelled == 0) {
		t.Error("expected tokens from memory, tokens from disk and cancelled requests")
	}
}

func (l *lives) start() {
	s, err := engine.OpenBlockStore(l.dir,
		engine.BlockStoreOptions{MinFreeBytes: -1, MaxBytes: 12 << 20})
	if err != nil {
		l.t.Fatal(err)
	}
	l.o.BlockStore = s
	l.e = open(l.t, l.o)
}

func (l *lives) stop() {
	l.t.Helper()
	idle(l.t, l.e)
	if err := l.e.CheckMemory(); err != nil {
		l.t.Fatal(err)
	}
	l.e.Close()
	l.o.BlockStore.Close()
	l.o.BlockStore = openStore(l.t, l.dir)
	if err := l.o.BlockStore.Check(); err != nil && !l.damages {
		l.t.Fatal(err)
	}
	l.o.BlockStore.Close()
}

// turn takes one random action.
func (l *lives) turn() {
	switch l.r.IntN(14) {
	case 0:
		l.stop()
		l.start()
	case 1: // damage or remove a file
		if !l.damages {
			return
		}
		files, _ := filepath.Glob(filepath.Join(l.dir, "blocks", "*", "*.safetensors"))
		if len(files) == 0 {
			return
		}
		name := files[l.r.IntN(len(files))]
		if data, err := os.ReadFile(name); err == nil && len(data) > 0 && l.r.IntN(2) == 0 {
			data[l.r.IntN(len(data))] ^= 1 << l.r.IntN(8)
			_ = os.WriteFile(name, data[:len(data)-l.r.IntN(2)], 0o600)
		} else {
			_ = os.Remove(name)
		}
	case 2:
		if l.r.IntN(3) == 0 {
			// The folder disappears at once. Removing file by file could also remove files that the
			// store has written since.
			gone := fmt.Sprintf("%s.gone%d", l.dir, l.answered)
			if os.Rename(l.dir, gone) == nil {
				_ = os.RemoveAll(gone)
			}
		}
	default:
		l.ask()
	}
}

// comeBack cancels a request, then sends the same prompt twice with a restart in between. So every
// run of the test cancels a request and reads tokens from disk.
func (l *lives) comeBack() {
	text := l.text()
	l.read(text, submit(l.t, l.e,
		engine.Request{Prompt: encode(l.e, text), MaxTokens: 500, IgnoreEOS: true}), 0)
	for restarted := range 2 {
		if restarted > 0 {
			l.stop()
			l.start()
		}
		l.read(text, submit(l.t, l.e,
			engine.Request{Prompt: encode(l.e, text), MaxTokens: 12, IgnoreEOS: true}), 1<<30)
	}
}

// ask submits one to four concurrent requests. Some of them are cancelled.
func (l *lives) ask() {
	type asked struct {
		text   string
		stream *engine.Stream
		cancel int // number of events after which to cancel
	}
	var list []asked
	for range 1 + l.r.IntN(4) {
		text := l.text()
		a := asked{text: text, cancel: 1 << 30,
			stream: submit(l.t, l.e,
				engine.Request{Prompt: encode(l.e, text), MaxTokens: 12, IgnoreEOS: true})}
		if l.r.IntN(5) == 0 {
			a.cancel = l.r.IntN(4)
		}
		list = append(list, a)
	}
	for _, a := range list {
		l.read(a.text, a.stream, a.cancel)
	}
}

// text returns a prompt: a new conversation, the next turn of an earlier one, or a conversation
// that diverges from an earlier one.
func (l *lives) text() string {
	talk := system(fmt.Sprintf("You are number %d. ", l.r.IntN(3)), 60+l.r.IntN(2)*40)
	if len(l.talks) > 0 && l.r.IntN(4) > 0 {
		talk = l.talks[l.r.IntN(len(l.talks))]
		if l.r.IntN(4) == 0 {
			talk = talk[:strings.LastIndex(talk, "<|im_start|>")]
		}
	}
	if len(talk) > 3500 {
		talk = system("You are tired. ", 70)
	}
	return talk + "<|im_start|>user\n" + questions[l.r.IntN(len(questions))] +
		"<|im_end|>\n<|im_start|>assistant\n"
}

// read reads an answer and compares it with the answer that the same prompt gets alone. It cancels
// the request after the given number of events.
func (l *lives) read(text string, s *engine.Stream, cancel int) {
	l.t.Helper()
	var logprobs []float32
	var answer strings.Builder
	for n := 0; ; n++ {
		if n == cancel {
			s.Cancel()
		}
		ev, err := s.Next(context.Background())
		if err != nil {
			break
		}
		answer.WriteString(ev.Text)
		if ev.Type == engine.Token {
			logprobs = append(logprobs, ev.Logprob)
		}
		if ev.Type == engine.Done {
			l.cached += ev.Usage.CachedTokens
			l.stored += ev.Usage.StoredTokens
			if ev.Finish == engine.FinishCancelled {
				l.cancelled++
				return
			}
			if ev.Err != nil {
				l.t.Fatal(ev.Err)
			}
		}
	}
	l.answered++
	want, ok := l.expected[text]
	if !ok {
		want = l.cold(text)
		l.expected[text] = want
	}
	if !slices.Equal(logprobs, want) {
		l.t.Fatalf("answer %d, to a prompt of %d bytes, differs from the answer without a cache",
			l.answered, len(text))
	}
	l.talks = append(l.talks, text+answer.String()+"<|im_end|>\n")
}

// cold computes the log-probabilities of an answer without a prefix cache.
func (l *lives) cold(text string) (logprobs []float32) {
	s := submit(l.t, l.alone,
		engine.Request{Prompt: encode(l.alone, text), MaxTokens: 12, IgnoreEOS: true})
	for ev, err := s.Next(context.Background()); err == nil; ev,
		err = s.Next(context.Background()) {
		if ev.Type == engine.Token {
			logprobs = append(logprobs, ev.Logprob)
		}
	}
	return logprobs
}
