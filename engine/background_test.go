package engine_test

import (
	"slices"
	"testing"

	"headroom/engine"
)

// TestBackground: requests in the background and others give the answers that they give alone,
// while others come and go, slots are short and pages are, and with drafts; also on an asynchronous
// device.
func TestBackground(t *testing.T) {
	const later = 6
	request := func(i int) engine.Request {
		r := engine.Request{Prompt: someIDs(i, 20+17*i), MaxTokens: 24 + i, IgnoreEOS: true,
			Background: i < later}
		if i%2 == 1 {
			r.Sampling = samplings()[i%len(samplings())]
		}
		return r
	}
	for _, name := range []string{"qwen3", "qwen3_5_text"} {
		src := tinySource(t, name)
		o := engine.Options{ContextTokens: 512, MaxSequences: 3, ChunkTokens: 48}
		want := make([][]int32, later+4)
		alone := openModel(t, src, o)
		for i := range want {
			want[i], _, _ = collect(t, submit(t, alone, request(i)))
		}
		for _, async := range []bool{false, true} {
			e := openModel(t, src, o)
			if async {
				makeAsync(e)
			}
			streams := make([]*engine.Stream, len(want))
			for i := range later {
				streams[i] = submit(t, e, request(i))
			}
			for i := later; i < len(want); i++ {
				streams[i] = submit(t, e, request(i))
				got, _, done := collect(t, streams[i])
				if done.Err != nil || !slices.Equal(got, want[i]) {
					t.Errorf("%s, async %t, request %d: %v, tokens %v, expected %v", name, async,
						i, done.Err, got, want[i])
				}
			}
			for i := range later {
				got, _, done := collect(t, streams[i])
				if done.Err != nil || !slices.Equal(got, want[i]) {
					t.Errorf("%s, async %t, background request %d: %v, tokens %v, expected %v",
						name, async, i, done.Err, got, want[i])
				}
			}
			if s := e.Stats(); s.BackgroundRunning+s.BackgroundWaiting > 0 {
				t.Errorf("%+v, expected nothing in the background", s)
			}
		}
	}
}

// TestBackgroundQueue: requests in the background have a queue of their own, so that others are not
// refused because of them.
func TestBackgroundQueue(t *testing.T) {
	e := openModel(t, tinySource(t, "qwen3"), engine.Options{ContextTokens: 2048, MaxSequences: 1,
		QueueRequests: 2})
	r := engine.Request{Prompt: someIDs(1, 20), MaxTokens: 2000, IgnoreEOS: true, Background: true}
	refused := 0
	for range 8 {
		s, err := e.Submit(r)
		if err != nil {
			refused++
			continue
		}
		defer s.Cancel()
	}
	if refused < 5 || refused > 6 {
		t.Errorf("%d of 8 were refused, expected all but the queue of 2 and one that runs", refused)
	}
	r.Background, r.MaxTokens = false, 3
	if _, _, done := collect(t, submit(t, e, r)); done.Err != nil {
		t.Error("beside a full queue of the background:", done.Err)
	}
}
