package engine_test

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/kernels"
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

// hookedDevice calls before each operator.
type hookedDevice struct {
	kernels.Device
	before func()
}

func (d *hookedDevice) Run(op kernels.Op) {
	d.before()
	d.Device.Run(op)
}

// TestBackgroundStops: a request that arrives in a step of the background alone stops that step,
// wherever it is. Both give the answers that they give alone. The step of a model with states or
// windows goes on.
func TestBackgroundStops(t *testing.T) {
	later := engine.Request{Prompt: someIDs(1, 150), MaxTokens: 9, IgnoreEOS: true,
		Background: true}
	front := engine.Request{Prompt: someIDs(2, 40), MaxTokens: 9, IgnoreEOS: true}
	for _, c := range []struct {
		model string
		stops bool
	}{{"qwen3", true}, {"gemma3_text", false}, {"qwen3_5_text", false}} {
		src := tinySource(t, c.model)
		o := engine.Options{ContextTokens: 512, MaxSequences: 3, ChunkTokens: 64,
			NoPrefixCache: true}
		alone := openModel(t, src, o)
		want, _, _ := collect(t, submit(t, alone, later))
		wantFront, _, _ := collect(t, submit(t, alone, front))
		e := openModel(t, src, o)
		ops, at, arrive := 0, 0, func() {}
		e.ReplaceDevice(func(d kernels.Device) kernels.Device {
			return &hookedDevice{d, func() {
				if ops++; ops == at {
					arrive()
				}
			}}
		})
		for at = 1; at < 400; at += 23 {
			var second *engine.Stream
			ops, arrive = 0, func() { second = submit(t, e, front) }
			got, _, done := collect(t, submit(t, e, later))
			if done.Err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, stopped before operator %d: %v, tokens %v, expected %v", c.model, at,
					done.Err, got, want)
			}
			if second == nil {
				break // there are not so many operators
			}
			got, _, done = collect(t, second)
			if done.Err != nil || !slices.Equal(got, wantFront) {
				t.Errorf("%s, at operator %d: %v, tokens %v, expected %v", c.model, at, done.Err,
					got, wantFront)
			}
		}
		if n := e.Stops(); (n > 3) != c.stops {
			t.Errorf("%s: %d steps were stopped", c.model, n)
		}
		if err := e.CheckMemory(); err != nil {
			t.Error(err)
		}
	}
}

// TestBackgroundGoesOn: a step of the background is stopped some times and then runs to its end,
// although another request arrives whenever it is computed.
func TestBackgroundGoesOn(t *testing.T) {
	for range 10 { // the others may be too slow to stop every step
		backgroundGoesOn(t)
	}
}

func backgroundGoesOn(t *testing.T) {
	t.Helper()
	later := engine.Request{Prompt: someIDs(1, 64), MaxTokens: 1, IgnoreEOS: true,
		Background: true}
	front := engine.Request{Prompt: someIDs(2, 4), MaxTokens: 1, IgnoreEOS: true}
	e := openModel(t, tinySource(t, "qwen3"), engine.Options{ContextTokens: 512, MaxSequences: 3,
		ChunkTokens: 64, NoPrefixCache: true})
	const most = 400
	var asked, running atomic.Int32
	var wait sync.WaitGroup
	e.ReplaceDevice(func(d kernels.Device) kernels.Device {
		return &hookedDevice{d, func() {
			if asked.Load() >= most || running.Load() > 0 {
				return
			}
			asked.Add(1)
			running.Add(1)
			stream := submit(t, e, front)
			wait.Go(func() {
				if _, _, done := collect(t, stream); done.Err != nil {
					t.Error(done.Err)
				}
				running.Add(-1)
			})
		}}
	})
	if _, _, done := collect(t, submit(t, e, later)); done.Err != nil {
		t.Error(done.Err)
	}
	if n := e.Stops(); n == 0 || n > 8 {
		t.Errorf("its only step was stopped %d times, expected 1 to 8", n)
	}
	asked.Store(most)
	wait.Wait()
}

// BenchmarkBackground measures what a chat loses with 8 requests in the background. Each round
// decodes the same number of tokens without and with them. On a machine that does something else
// too, the loss of processor time says more than that of time. HEADROOM_BESIDE compares with 8
// requests that are not in the background.
//
//	go test ./engine -run - -bench Background -benchtime 9x
func BenchmarkBackground(b *testing.B) {
	const later, answer = 8, 120
	for _, shape := range []string{"qwen3-0.6b", "qwen3_5-0.8b"} {
		b.Run(shape, func(b *testing.B) {
			config, err := os.ReadFile("../app/commands/shapes/" + shape + ".json")
			if err != nil {
				b.Fatal(err)
			}
			e := openModel(b, engine.Random(config), engine.Options{ContextTokens: 4096,
				MaxSequences: later + 1, NoPrefixCache: true, Threads: 1})
			// decode returns the times of a chat's answer: to the first token, of the others, and
			// of the processor.
			decode := func() (first, wall, cpu float64) {
				s := submit(b, e, engine.Request{Prompt: someIDs(1, 200), MaxTokens: answer,
					IgnoreEOS: true})
				for {
					event, err := s.Next(b.Context())
					switch {
					case err != nil:
						b.Fatal(err)
					case event.Type == engine.Token && event.Usage.CompletionTokens == 1:
						cpu = -processorTime(b)
					case event.Type == engine.Done:
						cpu += processorTime(b)
						return event.Timing.FirstToken.Seconds(), event.Timing.Decode.Seconds(), cpu
					}
				}
			}
			var times [2][3][]float64
			batch := 0
			for range b.N {
				for way := range times {
					var streams []*engine.Stream
					before := e.Stats().GeneratedTokens
					for i := range later * way {
						streams = append(streams, submit(b, e, engine.Request{
							Prompt: someIDs(i+2, 150), IgnoreEOS: true,
							Background: os.Getenv("HEADROOM_BESIDE") == ""}))
					}
					for way > 0 && e.Stats().GeneratedTokens < before+3*later { // until they run
						time.Sleep(time.Millisecond)
					}
					before = e.Stats().GeneratedTokens
					first, wall, cpu := decode()
					batch += int(e.Stats().GeneratedTokens-before) - answer
					for i, t := range []float64{first, wall, cpu} {
						times[way][i] = append(times[way][i], t)
					}
					for _, s := range streams {
						s.Cancel()
						collect(b, s)
					}
				}
			}
			middle := func(way, i int) float64 {
				slices.Sort(times[way][i])
				return times[way][i][b.N/2]
			}
			b.ReportMetric((answer-1)/middle(0, 1), "tok/s")
			b.ReportMetric(100*(middle(1, 1)/middle(0, 1)-1), "%lost")
			b.ReportMetric(100*(middle(1, 2)/middle(0, 2)-1), "%lostOfProcessor")
			b.ReportMetric(1000*middle(0, 0), "ms-first")
			b.ReportMetric(1000*middle(1, 0), "ms-first-batch")
			b.ReportMetric(float64(batch)/float64(b.N), "batchTokens")
		})
	}
}

// processorTime returns the processor time of this process in seconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
