package route

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// BenchmarkOverhead: a request of 64 KB and an answer of 200 events, at the machine and through the
// router. The difference is what the router adds.
func BenchmarkOverhead(b *testing.B) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 200 {
			_, _ = io.WriteString(w,
				"data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n")
			w.(http.Flusher).Flush()
		}
	}
	text := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 13_000) +
		`"}]}`
	for _, c := range []struct {
		name     string
		machines int
		prompt   int
	}{{"direct", 1, 0}, {"one machine", 1, 0}, {"four machines and their caches", 4, 16_000}} {
		b.Run(c.name, func(b *testing.B) {
			var fakes []*fake
			for i := range c.machines {
				fakes = append(fakes, newFake(b, string(rune('a'+i)), answer))
			}
			g := newRig(b, nowhere{}, fakes...)
			if c.prompt > 0 {
				g.prompt = make([]int32, c.prompt)
			}
			address := g.URL
			if c.name == "direct" {
				address = fakes[0].URL
			}
			var first, last time.Duration
			for b.Loop() {
				began := time.Now()
				response, err := http.Post(address+chatPath, "application/json",
					strings.NewReader(text))
				if err != nil {
					b.Fatal(err)
				}
				one := make([]byte, 1)
				_, _ = response.Body.Read(one)
				first += time.Since(began)
				_, _ = io.Copy(io.Discard, response.Body)
				last += time.Since(began)
				response.Body.Close()
			}
			b.ReportMetric(float64(first.Microseconds())/float64(b.N), "us-first-byte")
			b.ReportMetric(float64(last.Microseconds())/float64(b.N), "us-last-byte")
		})
	}
}
