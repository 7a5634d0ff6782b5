package ceiling

import (
	"slices"
	"time"

	"headroom/kernels"
)

// Pattern is an order in which the CPU reads a row. The patterns add up in different orders, so
// their sums may differ in the last bits.
type Pattern struct {
	Streams       int // parts of a row that are read side by side
	Lines         int // lines of 64 bytes that are read of a stream before the next one
	PrefetchBytes int // distance of software prefetches; 0 leaves them to the processor
}

// Patterns are the patterns that Read can use. The fastest one depends on the processor: AMD's Zen
// 3 reads best in four streams, one line at a time, and an Intel Xeon in two streams, eight lines
// at a time (PERF.md).
var Patterns = []Pattern{{4, 1, 2 << 10}, {4, 1, 512}, {4, 1, 0}, {4, 8, 2 << 10}, {4, 8, 0},
	{2, 8, 2 << 10}, {2, 8, 0}, {1, 8, 2 << 10}, {1, 8, 0}}

// passParts is the number of parts into which PatternRates divides the rows. Each pass reads one
// part, so every pattern runs often and finds memory in the same state as the others.
const passParts = 8

// PatternRates tries every pattern on o's rows in turn until the duration has passed, each at least
// once. It returns the median rate of each pattern in bytes per second. An eighth of o's rows must
// be far larger than any cache.
func (o *Read) PatternRates(d kernels.Device, duration time.Duration) ([]float64, error) {
	part, passes := *o, make([][]float64, len(Patterns))
	rows := o.X.Rows / passParts
	for n, end := 0, time.Now().Add(duration); n == 0 || time.Now().Before(end); n++ {
		for pattern := range Patterns {
			from := (n*len(Patterns) + pattern) % passParts * rows
			part.Pattern, part.X = pattern, o.X.RowRange(from, from+rows)
			part.Sums = o.Sums.RowRange(from, from+rows)
			start := time.Now()
			d.Run(&part)
			if err := d.Sync(); err != nil {
				return nil, err
			}
			rate := float64(part.TrafficBytes()) / time.Since(start).Seconds()
			passes[pattern] = append(passes[pattern], rate)
		}
	}
	rates := make([]float64, len(Patterns))
	for i, p := range passes {
		slices.Sort(p)
		rates[i] = p[len(p)/2]
	}
	return rates, nil
}
