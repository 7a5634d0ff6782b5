package memory

// How fast the processors read memory, which bounds how fast a model decodes: each token reads the
// active weights once. The figure is for estimates before a model is downloaded, so it has to be
// there at once and may be off by a fifth. app/bench measures exactly.

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// BandwidthBytes returns how many bytes all processors together read from memory in a second. On
// Apple silicon it is Apple's figure for the chip. On other machines the first call measures it,
// which takes a fifth of a second and measuredBytes of memory. It returns 0 if it is not known.
func BandwidthBytes() float64 { return bandwidthBytes() }

var bandwidthBytes = sync.OnceValue(func() float64 {
	if known := chipBandwidth(chipName()); known > 0 {
		return known
	}
	return measuredBandwidth()
})

// chips are the unified memory's GB/s of Apple's chips, from the technical specifications on
// support.apple.com. A chip that is sold with two buses has the figure of the slower one.
var chips = map[string]float64{
	"M1": 68.25, "M1 Pro": 200, "M1 Max": 400, "M1 Ultra": 800,
	"M2": 100, "M2 Pro": 200, "M2 Max": 400, "M2 Ultra": 800,
	"M3": 100, "M3 Pro": 150, "M3 Max": 300, "M3 Ultra": 819,
	"M4": 120, "M4 Pro": 273, "M4 Max": 410,
	"M5": 153,
}

// chipBandwidth returns the bandwidth of a chip that calls itself "Apple M1 Pro"; 0: not known.
func chipBandwidth(name string) float64 {
	chip, ok := strings.CutPrefix(name, "Apple ")
	if !ok {
		return 0
	}
	return chips[chip] * 1e9
}

// measuredBytes is several times the largest cache of a common processor.
const measuredBytes = 192 << 20

// measuredBandwidth reads a buffer with all processors, three times. The best counts: other
// programs slow down the others.
func measuredBandwidth() float64 {
	words, release := mapWords(measuredBytes)
	if words == nil {
		return 0
	}
	defer release()
	eachPart(words, func(part []uint64) {
		for i := 0; i < len(part); i += 512 {
			part[i] = 1 // untouched pages would share one page of zeros
		}
	})
	var rates []float64
	for range 3 {
		start := time.Now()
		eachPart(words, func(part []uint64) { sum(part) })
		rates = append(rates, measuredBytes/time.Since(start).Seconds())
	}
	return slices.Max(rates)
}
