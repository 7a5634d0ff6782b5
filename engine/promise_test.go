package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// TestPromise: a model at rest is promised a short conversation. A request gets the memory of its
// own when it is admitted, and gives it back at its end. One for which there is too little waits,
// and is refused if nothing changes.
func TestPromise(t *testing.T) {
	src := longContext(t)
	e := openModel(t, src, engine.Options{ContextTokens: 16384, MaxSequences: 2,
		KVFormat: "f16", NoPrefixCache: true})
	d := e.Info()
	rest := d.KVBytes(4096)
	if s := e.Stats(); s.ReservedBytes != rest || s.ConversationBytes != d.Need.KVBytes-rest {
		t.Errorf("at rest %d bytes are reserved, want %d; %d more are a conversation",
			s.ReservedBytes, rest, s.ConversationBytes)
	}
	short := engine.Request{Prompt: someIDs(1, 200), MaxTokens: 8, IgnoreEOS: true}
	want, _, _ := answer(t, submit(t, e, short))
	e.SetGrowth(engine.Growth{})
	long := engine.Request{Prompt: someIDs(2, 6000), MaxTokens: 8, IgnoreEOS: true}
	waits := submit(t, e, long)
	until(t, func() bool {
		s := e.Stats()
		return len(s.Requests) == 1 && s.Requests[0].LacksBytes == d.KVBytes(6016)
	})
	if got, _, _ := answer(t, submit(t, e, short)); !slices.Equal(got, want) {
		t.Errorf("beside a request that waits: %v, want %v", got, want)
	}
	e.SetGrowth(engine.Growth{ConversationBytes: d.KVBytes(16384)})
	if got, _, _ := answer(t, waits); len(got) != 8 {
		t.Errorf("once there is memory, it has %d tokens", len(got))
	}
	idle(t, e)
	if s := e.Stats(); s.KVBytes+s.ReservedBytes > d.KVBytes(6080) {
		t.Errorf("after the end %d bytes are written and %d reserved", s.KVBytes, s.ReservedBytes)
	}
	e.LackingWait(time.Nanosecond)
	refused := submit(t, e, engine.Request{Prompt: someIDs(3, 12000), MaxTokens: 8})
	until(t, func() bool {
		e.SetGrowth(engine.Growth{})
		return refused.Unread() > 0
	})
	done, err := refused.Next(t.Context())
	p := problem.From(done.Err)
	if err != nil || done.Finish != engine.FinishError || p.Code != problem.LowResources {
		t.Errorf("without memory: %+v, %v", done, err)
	}
	if want := "12000 tokens and an answer take 12 MB, 5.9 MB is available"; p.Why != want {
		t.Errorf("it is refused because %q, want %q", p.Why, want)
	}
}

// longContext returns a tiny model for 16,384 tokens.
func longContext(t *testing.T) engine.Source {
	t.Helper()
	src := tinySource(t, "qwen3")
	path := filepath.Join(src.Dir, "config.json")
	config, err := os.ReadFile(path)
	if err == nil {
		config = bytes.Replace(config, []byte(`"max_position_embeddings": 2048`),
			[]byte(`"max_position_embeddings": 16384`), 1)
		err = os.WriteFile(path, config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestNoRequestWaitsForEver: a request for which there is too little memory is refused although
// shorter ones keep coming.
func TestNoRequestWaitsForEver(t *testing.T) {
	e := openModel(t, longContext(t), engine.Options{ContextTokens: 16384, MaxSequences: 4,
		KVFormat: "f16", NoPrefixCache: true})
	e.LackingWait(time.Millisecond)
	e.SetGrowth(engine.Growth{})
	long := submit(t, e, engine.Request{Prompt: someIDs(2, 6000), MaxTokens: 8, IgnoreEOS: true})
	for long.Unread() == 0 && t.Context().Err() == nil {
		answer(t, submit(t, e, engine.Request{Prompt: someIDs(1, 50), MaxTokens: 2}))
		e.SetGrowth(engine.Growth{})
	}
	if done, err := long.Next(t.Context()); err != nil ||
		problem.From(done.Err).Code != problem.LowResources {
		t.Errorf("got %+v, %v", done, err)
	}
}

// until waits until done returns true.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it takes too long")
		}
	}
}
