package bandwidth

// Which way of reading is the fastest differs by processor, and a yardstick must not read less than
// memory gives. So it is found by trying.

import (
	"slices"
	"time"

	"headroom/kernels"
)

// Way is how the CPU reads a row. All give its sum, adding up in orders of their own.
type Way struct {
	Streams int // that a row is read in side by side
	Lines   int // of 64 bytes, that are read of a stream before the next has its turn
	Ahead   int // bytes that a stream asks ahead; 0: it leaves that to the processor
}

// Ways are worth trying: AMD's Zen 3 is best with four streams, a line of each at a time, an Intel
// Xeon with two and eight lines (PERF.md).
var Ways = []Way{{4, 1, 2 << 10}, {4, 1, 512}, {4, 1, 0}, {4, 8, 2 << 10}, {4, 8, 0},
	{2, 8, 2 << 10}, {2, 8, 0}, {1, 8, 2 << 10}, {1, 8, 0}}

// parts of the memory that are read in turn: with a part for each pass every way is tried often,
// and meets memory in the same state as the others.
const parts = 8

// Rates tries all ways on o in turn, for so long and once at least, and returns the median of each
// in bytes per second. o has rows for eight parts that are each far larger than a cache.
func (o *Read) Rates(d kernels.Device, during time.Duration) (perSecond []float64, err error) {
	part, passes := *o, make([][]float64, len(Ways))
	rows := o.X.Rows / parts
	for n, end := 0, time.Now().Add(during); n == 0 || time.Now().Before(end); n++ {
		for way := range Ways {
			from := (n*len(Ways) + way) % parts * rows
			part.Way, part.X, part.Sums = way, o.X.RowRange(from, from+rows),
				o.Sums.RowRange(from, from+rows)
			start := time.Now()
			d.Run(&part)
			if err := d.Sync(); err != nil {
				return nil, err
			}
			passes[way] = append(passes[way],
				float64(part.TrafficBytes())/time.Since(start).Seconds())
		}
	}
	for _, p := range passes {
		slices.Sort(p)
		perSecond = append(perSecond, p[len(p)/2])
	}
	return perSecond, nil
}
