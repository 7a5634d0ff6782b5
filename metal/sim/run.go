//go:build linux && amd64

package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"headroom/metal/msl"
)

// nothing is what a buffer argument without a buffer points to in fast mode: a stray read does no
// harm. The checker reports it.
var nothing [4096]byte

// run executes what was recorded, on the device's goroutine. commit numbers the device's commits:
// it goes into every seed.
func (c *commands) run(commit uint64) {
	began := time.Now()
	err := c.refused
	for from := 0; from < len(c.recorded) && err == nil; {
		to := from
		for to < len(c.recorded) && c.recorded[to].interval == c.recorded[from].interval {
			to++
		}
		err = c.runInterval(c.recorded[from:to], commit<<20|uint64(c.recorded[from].interval))
		from = to
	}
	c.result, c.seconds = err, time.Since(began).Seconds()
	if c.done != nil {
		c.done(err)
	}
	c.ran <- struct{}{}
}

// runInterval runs dispatches that no barrier separates, in an order drawn from the seed, and looks
// at what they share.
func (c *commands) runInterval(interval []dispatch, stream uint64) error {
	r := rand.New(rand.NewPCG(c.d.o.Seed, stream))
	touched := make([][]touchedRegion, len(interval))
	for _, i := range r.Perm(len(interval)) {
		var err error
		if touched[i], err = c.d.execute(&interval[i], r.Uint32()); err != nil {
			return fmt.Errorf("dispatch %q, kernel %s: %w", interval[i].label,
				interval[i].pipeline.kernel.Name, err)
		}
	}
	if !c.d.o.Check {
		return nil
	}
	return conflicts(interval, touched)
}

// touchedRegion is memory that a dispatch was given, and which bytes it read (bit 0) and wrote (bit
// 1).
type touchedRegion struct {
	addresses
	writable bool
	bytes    []byte
}

// execute runs one dispatch and returns, on a checking device, what it touched.
func (d *device) execute(x *dispatch, seed uint32) ([]touchedRegion, error) {
	p := x.pipeline
	call := &cDispatch{
		entry:     p.entry,
		groups:    [3]uint32{uint32(x.groups.X), uint32(x.groups.Y), uint32(x.groups.Z)},
		threads:   [3]uint32{uint32(x.threads.X), uint32(x.threads.Y), uint32(x.threads.Z)},
		workers:   uint32(min(d.o.Threads, max(x.groups.Count()/2, 1))),
		constants: unsafe.Pointer(unsafe.SliceData(p.constants)),
		imageFrom: p.library.image[0], imageTo: p.library.image[1],
		seed: seed,
	}
	for i := range p.kernel.Arguments {
		switch a := &p.kernel.Arguments[i]; a.Kind {
		case msl.BufferArgument:
			call.buffer[a.Index] = uint64(uintptr(unsafe.Pointer(&nothing)))
			if b := x.bindings[a.Index]; b.Buffer != nil && !p.absent(a) {
				call.buffer[a.Index] = span(b).from
			}
		case msl.ThreadgroupArgument:
			call.threadgroupBytes[a.Index] = uint32(x.threadgroupBytes[a.Index])
		}
	}
	var regions []touchedRegion
	if d.o.Check {
		call.flags = flagCheck | flagShuffleThreads
		regions = x.regions()
		call.regions = uint32(len(regions))
		for i := range regions {
			r := &regions[i]
			call.region[i] = cRegion{from: r.from, to: r.to,
				touched: unsafe.Pointer(unsafe.SliceData(r.bytes))}
			if r.writable {
				call.region[i].writable = 1
			}
		}
	}
	faults := d.runtime.dispatch(unsafe.Pointer(call))
	runtime.KeepAlive(regions)
	p.learn(int(call.usedBytes), x)
	if faults > 0 {
		return nil, x.faults(call)
	}
	return regions, nil
}

// learn keeps how much threadgroup memory the kernel's own variables take.
func (p *pipeline) learn(usedBytes int, x *dispatch) {
	for i := range x.threadgroupBytes {
		if p.kernel.Threadgroup(i) != nil {
			usedBytes -= x.threadgroupBytes[i]
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.staticBytes = usedBytes
}

// regions joins bindings that overlap.
func (x *dispatch) regions() []touchedRegion {
	var all []touchedRegion
	for i := range x.pipeline.kernel.Arguments {
		a := &x.pipeline.kernel.Arguments[i]
		if a.Kind == msl.BufferArgument && !x.pipeline.absent(a) &&
			x.bindings[a.Index].Buffer != nil {
			all = append(all, touchedRegion{addresses: span(x.bindings[a.Index]),
				writable: !a.ReadOnly})
		}
	}
	slices.SortFunc(all, func(a, b touchedRegion) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	var joined []touchedRegion
	for _, r := range all {
		if last := len(joined) - 1; last >= 0 && r.from < joined[last].to {
			joined[last].to = max(joined[last].to, r.to)
			joined[last].writable = joined[last].writable || r.writable
		} else {
			joined = append(joined, r)
		}
	}
	for i := range joined {
		joined[i].bytes = make([]byte, joined[i].to-joined[i].from)
	}
	return joined
}
