package probe

// The cost of calls. For each token the CPU encodes a few hundred dispatches.

import (
	"math"
	"time"

	"headroom/metal"
)

// Times are the best of several runs.
type Times struct {
	Empty      time.Duration // recording, committing and waiting for an empty dispatch
	EmptyOnGPU time.Duration // the part of Empty that the GPU reports
	Encode     time.Duration // recording 1000 empty dispatches, see Dispatches
	Run        time.Duration // recording, committing and waiting for 1000 empty dispatches
}

// Dispatches is the number of dispatches recorded for Times.Encode and Times.Run.
const Dispatches = 1000

// Times measures the cost of calls.
func (p *Probe) Times() (Times, error) {
	p.err = nil
	params, out := p.put(math.MaxUint32), p.put(make([]uint32, 64)...)
	pipeline, err := p.library.Pipeline("nothing", constants...)
	if err != nil {
		return Times{}, err
	}
	if p.err != nil {
		return Times{}, p.err
	}
	bindings := []metal.Binding{{Buffer: params}, {Buffer: out}}
	record := func(n int) (encode, run, gpu time.Duration) {
		began := time.Now()
		for range n {
			p.c.SetPipeline(pipeline)
			p.c.SetBuffers(0, bindings...)
			p.c.Dispatch("nothing", one, line(32))
		}
		encode = time.Since(began)
		p.finish(p.c)
		return encode, time.Since(began), time.Duration(p.c.GPUTime() * 1e9)
	}
	best := Times{Empty: math.MaxInt64, EmptyOnGPU: math.MaxInt64, Encode: math.MaxInt64,
		Run: math.MaxInt64}
	for range 20 {
		_, run, gpu := record(1)
		best.Empty, best.EmptyOnGPU = min(best.Empty, run), min(best.EmptyOnGPU, gpu)
	}
	for range 5 {
		encode, run, _ := record(Dispatches)
		best.Encode, best.Run = min(best.Encode, encode), min(best.Run, run)
	}
	return best, p.err
}
