package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"headroom/engine"
	"headroom/engine/cachemiss"
	"headroom/engine/models"
)

// logTo makes h the default log handler until the test ends.
func logTo(t *testing.T, h slog.Handler) {
	before := slog.Default()
	slog.SetDefault(slog.New(h))
	t.Cleanup(func() { slog.SetDefault(before) })
}

var perfLine = regexp.MustCompile(
	`PERF: prompt_tps=[\d.e+]+ prompt_tokens=(\d+) computed_tokens=(\d+) prefill=[\d.e-]+ ` +
		`ttft=[\d.e-]+ decode_tps=[\d.e+]+ ` +
		`drafts=0 accepted=0 model_drafts=0 model_accepted=0 block_drafts=0 block_accepted=0 ` +
		`prediction_drafts=0 prediction_accepted=0 gained=1 ` +
		`no_drafts=off no_drafts_why="Decoding ahead is off." block_hit=0 block_write=0 ` +
		`chain_break=([01]) first_difference=(-?\d+) cause=(\S+) id=(\S+)\n`)

// TestRecentAndPERF continues a conversation. Its client first drops the empty think block of an
// answer, and then changes the date in the system prompt. The reports, the log and the usage must
// agree.
func TestRecentAndPERF(t *testing.T) {
	var log bytes.Buffer
	logTo(t, slog.NewTextHandler(&log, nil))
	e := open(t, engine.Options{})
	const think = "<think>\n\n</think>\n\n"
	head := func(day string) string {
		return "<|im_start|>system\nToday is " + day + ". " +
			strings.Repeat("Answer briefly. ", 40) + "<|im_end|>\n"
	}
	first := "<|im_start|>user\nWhat is 76 - 27?<|im_end|>\n<|im_start|>assistant\n"
	second :=
		"76 - 27 = 49.<|im_end|>\n<|im_start|>user\nWhat is 63 + " +
			"29?<|im_end|>\n<|im_start|>assistant\n"
	tokens := func(text string) int { return len(encode(e, text)) }
	// The part of the first answer whose tokens were computed: all but the last token.
	kept := "76 - 27 = 49."
	recomputed := 0
	for _, turn := range []struct {
		prompt string
		cause  cachemiss.Cause
		at     int
		was    string
		broken string // chain_break: whether known tokens were computed again
	}{
		{head("2026-11-19") + first + think, cachemiss.NewConversation, -1, "",
			"0"},
		{head("2026-11-19") + first + think + second + think, cachemiss.Continued,
			tokens(head("2026-11-19") + first + think + kept), "", "0"},
		{head("2026-11-19") + first + second + think, cachemiss.Retokenized,
			tokens(head("2026-11-19") + first), "<think>", "1"},
		{head("2026-11-20") + first + second + think, cachemiss.DateChanged,
			tokens("<|im_start|>system\nToday is 2026-11-"), "2026-11-19.", "1"},
	} {
		log.Reset()
		_, _, done := collect(t,
			submit(t, e, engine.Request{Prompt: encode(e, turn.prompt), MaxTokens: 40,
				Client: "curl", Key: "ci"}))
		f := e.Recent()[0]
		if f.Title != "What is 76 - 27?" || f.Client != "curl" || f.Key != "ci" {
			t.Errorf("title %q, client %q, key %q", f.Title, f.Client, f.Key)
		}
		if f.Usage != done.Usage || f.Timing != done.Timing || f.Finish != engine.FinishStop {
			t.Errorf("recent %+v, expected the figures of the Done event %+v", f, done)
		}
		if r := f.Report; r.Cause != turn.cause || r.Break != turn.at ||
			!strings.HasPrefix(r.Was, turn.was) ||
			r.ReadTokens != done.Usage.PromptTokens-done.Usage.CachedTokens {
			t.Errorf("report %+v, expected %s at %d and Was with prefix %q", r, turn.cause, turn.at,
				turn.was)
		}
		recomputed += f.Report.RecomputedTokens
		if got := e.Stats().RecomputedTokens; got != int64(recomputed) {
			t.Errorf("%d tokens computed again, expected the %d of all reports", got, recomputed)
		}
		m := perfLine.FindStringSubmatch(log.String())
		want := []string{"", strconv.Itoa(done.Usage.PromptTokens),
			strconv.Itoa(f.Report.ReadTokens), turn.broken, strconv.Itoa(turn.at),
			string(turn.cause), f.ID}
		if m == nil || strings.Join(m[1:], " ") != strings.Join(want[1:], " ") {
			t.Errorf("logged %q, expected a line with %v", log.String(), want[1:])
		}
	}
	if recomputed == 0 {
		t.Error("nothing was computed again")
	}
	for range 70 {
		collect(t, submit(t, e, engine.Request{Prompt: []int32{1}, MaxTokens: 1}))
	}
	if recent := e.Recent(); len(recent) != 64 || recent[0].At.Before(recent[63].At) {
		t.Errorf("%d recent requests, expected the last 64, newest first", len(recent))
	}
}

// TestHistoryOutlivesEngines submits the same prompt to engines that are opened one after the
// other. The later ones have another KV format, or no prefix cache. All share a History.
func TestHistoryOutlivesEngines(t *testing.T) {
	h := engine.NewHistory()
	for _, test := range []struct {
		o     engine.Options
		cause cachemiss.Cause
	}{
		{engine.Options{}, cachemiss.NewConversation},
		{engine.Options{}, cachemiss.Evicted},
		{engine.Options{KVFormat: "q8_0"}, cachemiss.FormatChanged},
		{engine.Options{KVFormat: "q8_0", NoPrefixCache: true}, cachemiss.CacheOff},
	} {
		test.o.History, test.o.ContextTokens = h, 512
		e := open(t, test.o)
		collect(t, submit(t, e, engine.Request{Prompt: encode(e,
			strings.Repeat("Answer briefly. ", 20)+question), MaxTokens: 4}))
		if r := e.Recent()[0].Report; r.Cause != test.cause {
			t.Errorf("%+v: %+v, expected %s", test.o, r, test.cause)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFailedPassIsNotKnown checks that a prompt is not added to the history if one of its passes
// fails.
func TestFailedPassIsNotKnown(t *testing.T) {
	e := open(t, engine.Options{NoPrefixCache: true, ContextTokens: 256, MaxSequences: 1,
		ChunkTokens: 32})
	passes := 0
	e.ReplaceModel(func(m models.Model) models.Model {
		return hooked{m, func([]int32) {
			if passes++; passes == 3 {
				panic("a fault of the third pass")
			}
		}}
	})
	prompt := encode(e, strings.Repeat("Answer briefly. ", 40))[:100]
	for i, want := range []cachemiss.Cause{cachemiss.NewConversation, cachemiss.NewConversation,
		cachemiss.CacheOff} {
		// The first request fails. The second one succeeds and is added. The third one finds it.
		_, _, done := collect(t, submit(t, e, engine.Request{Prompt: prompt, MaxTokens: 1}))
		if r := e.Recent()[0].Report; r.Cause != want || (done.Err != nil) != (i == 0) {
			t.Errorf("request %d: %+v (%v), expected %s", i, r, done.Err, want)
		}
	}
}

// stuck is a log handler that blocks until the channel open is closed.
type stuck struct {
	slog.Handler
	open chan struct{}
}

func (s stuck) Handle(ctx context.Context, r slog.Record) error {
	<-s.open
	return s.Handler.Handle(ctx, r)
}

// TestSlowLogBlocksNoRequest checks that requests run and end while the log blocks, and that all of
// them are logged when the engine closes.
func TestSlowLogBlocksNoRequest(t *testing.T) {
	var log bytes.Buffer
	s := stuck{slog.NewTextHandler(&log, nil), make(chan struct{})}
	logTo(t, s)
	e := open(t, engine.Options{ContextTokens: 128})
	for range 3 {
		if _, _, done := collect(t,
			submit(t, e, engine.Request{Prompt: encode(e, question),
				MaxTokens: 2})); done.Err != nil {
			t.Error(done.Err)
		}
	}
	var opened sync.WaitGroup
	opened.Go(func() { close(s.open) })
	e.Close()
	opened.Wait()
	if n := strings.Count(log.String(), "PERF: "); n != 3 {
		t.Errorf("%d PERF lines, expected 3: %s", n, log.String())
	}
}
