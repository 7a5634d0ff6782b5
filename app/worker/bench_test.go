package worker

import (
	"testing"

	"headroom/engine"
)

// BenchmarkTokens measures tokens per second of an engine in this process and of a worker, with one
// stream and with four.
func BenchmarkTokens(b *testing.B) {
	o := small
	o.Threads = 0
	local, err := engine.Open(b.Context(), bundled(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer local.Close()
	worker := open(b, o)
	for _, c := range []struct {
		name   string
		engine model
		count  int
	}{{"local/1", local, 1}, {"worker/1", worker, 1}, {"local/4", local, 4},
		{"worker/4", worker, 4}} {
		b.Run(c.name, func(b *testing.B) {
			const most = 400
			r := engine.Request{Prompt: prompt(b, c.engine, "What is a KV cache?"), MaxTokens: most,
				IgnoreEOS: true}
			for b.Loop() {
				var streams []*engine.Stream
				for range c.count {
					s, err := c.engine.Submit(r)
					if err != nil {
						b.Fatal(err)
					}
					streams = append(streams, s)
				}
				for _, s := range streams {
					read(b, s)
				}
			}
			b.ReportMetric(float64(b.N*c.count*most)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// BenchmarkEvent measures encoding and decoding one event.
func BenchmarkEvent(b *testing.B) {
	e := &fromWorker{Event: &event{1,
		newWireEvent(engine.Event{Type: engine.Token, Token: 1234, Text: " word", Logprob: -0.5,
			Usage: engine.Usage{PromptTokens: 16, PromptDoneTokens: 16, CompletionTokens: 7}})}}
	data, err := encoding.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		data, _ := encoding.Marshal(e)
		var got fromWorker
		if err := decoding.Unmarshal(data, &got); err != nil {
			b.Fatal(err)
		}
	}
}
