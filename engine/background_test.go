package engine_test

import (
	"os"
	"slices"
	"testing"
	"time"

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

// BenchmarkBackground measures how much of its speed a chat loses with 8 requests in the background
// and, for comparison, with 8 others that are not. Each round decodes the same number of tokens in
// all three ways, so that a machine whose speed changes does not matter much.
//
//	go test ./engine -run - -bench Background -benchtime 5x
func BenchmarkBackground(b *testing.B) {
	for _, shape := range []string{"qwen3-0.6b", "qwen3_5-0.8b"} {
		b.Run(shape, func(b *testing.B) {
			config, err := os.ReadFile("../app/commands/shapes/" + shape + ".json")
			if err != nil {
				b.Fatal(err)
			}
			e := openModel(b, engine.Random(config), engine.Options{ContextTokens: 4096,
				MaxSequences: 9, NoPrefixCache: true, Device: os.Getenv("HEADROOM_BENCH_DEVICE")})
			chat := engine.Request{Prompt: someIDs(1, 200), MaxTokens: 120, IgnoreEOS: true}
			took := [3][]float64{}
			first := [3][]float64{}
			others := int64(0)
			for range b.N {
				for way := range took {
					var batch []*engine.Stream
					for i := range 8 {
						if way > 0 {
							batch = append(batch, submit(b, e, engine.Request{
								Prompt: someIDs(i+2, 150), IgnoreEOS: true, Background: way == 1}))
						}
					}
					for way > 0 && e.Stats().GeneratedTokens < others+200 { // until they run
						time.Sleep(time.Millisecond)
					}
					_, _, done := collect(b, submit(b, e, chat))
					took[way] = append(took[way], done.Timing.Decode.Seconds())
					first[way] = append(first[way], done.Timing.FirstToken.Seconds())
					for _, s := range batch {
						s.Cancel()
					}
					for _, s := range batch {
						_, _, ended := collect(b, s)
						if way == 1 {
							b.ReportMetric(float64(ended.Usage.CompletionTokens), "batchTokens")
						}
					}
					others = e.Stats().GeneratedTokens
				}
			}
			for way := range took {
				slices.Sort(took[way])
				slices.Sort(first[way])
			}
			middle := b.N / 2
			b.ReportMetric(119/took[0][middle], "tok/s")
			b.ReportMetric(100*(took[1][middle]/took[0][middle]-1), "%lost")
			b.ReportMetric(100*(took[2][middle]/took[0][middle]-1), "%lostBesideOthers")
			b.ReportMetric(1000*first[0][middle], "ms-first")
			b.ReportMetric(1000*first[1][middle], "ms-first-batch")
		})
	}
}
