//go:build linux && amd64

package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"headroom/metal/base"
	"headroom/metal/msl"
)

// unbound is the memory of a buffer argument to which no buffer is bound. A stray read there does
// no harm; the checker reports it.
var unbound [4096]byte

// run executes the recording on the device's goroutine. commit counts the device's commits and is
// part of every seed.
func (c *commands) run(commit uint64) {
	began := time.Now()
	err := c.mistake
	if err == nil && c.d.o.Fault != nil {
		err = c.d.o.Fault(len(c.recorded))
	}
	if err == nil {
		for interval := range base.Intervals(c.recorded) {
			stream := commit<<20 | uint64(interval[0].BarriersBefore())
			if err = c.runInterval(interval, stream); err != nil {
				break
			}
		}
	}
	c.result, c.seconds = err, time.Since(began).Seconds()
	if c.done != nil {
		c.done(err)
	}
	c.ran <- struct{}{}
}

// runInterval runs dispatches that no barrier separates in a random order and, on a checking
// device, looks for conflicts between them. The device's seed and stream determine the order.
func (c *commands) runInterval(interval []dispatch, stream uint64) error {
	r := rand.New(rand.NewPCG(c.d.o.Seed, stream))
	touched := make([][]touchedRegion, len(interval))
	for _, i := range r.Perm(len(interval)) {
		var err error
		if touched[i], err = c.d.execute(&interval[i], r.Uint32()); err != nil {
			return fmt.Errorf("dispatch %q, kernel %s: %w", interval[i].Label,
				interval[i].Pipeline.Kernel().Name, err)
		}
	}
	if !c.d.o.Check {
		return nil
	}
	return conflicts(interval, touched)
}

// touchedRegion is memory bound to a dispatch. Each of bytes says whether the dispatch read (bit 0)
// or wrote (bit 1) that byte of the memory.
type touchedRegion struct {
	addresses
	writable bool
	bytes    []byte
}

// execute runs one dispatch. On a checking device it returns the memory that the dispatch touched.
func (d *device) execute(x *dispatch, seed uint32) ([]touchedRegion, error) {
	p := x.Pipeline
	call := &cDispatch{
		entry:     p.entry,
		groups:    [3]uint32{uint32(x.Groups.X), uint32(x.Groups.Y), uint32(x.Groups.Z)},
		threads:   [3]uint32{uint32(x.Threads.X), uint32(x.Threads.Y), uint32(x.Threads.Z)},
		workers:   uint32(min(d.o.Threads, max(x.Groups.Count()/2, 1))),
		constants: unsafe.Pointer(unsafe.SliceData(p.constants)),
		imageFrom: p.library.image[0], imageTo: p.library.image[1],
		seed: seed,
	}
	for i := range p.Kernel().Arguments {
		switch a := &p.Kernel().Arguments[i]; a.Kind {
		case msl.BufferArgument:
			call.buffer[a.Index] = uint64(uintptr(unsafe.Pointer(&unbound)))
			if b := x.bindings[a.Index]; b.Buffer != nil && !p.Absent(a) {
				call.buffer[a.Index] = addressesOf(b).from
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
	p.noteStaticBytes(int(call.usedBytes), x)
	if faults > 0 {
		return nil, x.faults(call)
	}
	return regions, nil
}

// noteStaticBytes keeps the size of the kernel's threadgroup variables: usedBytes without the
// dispatch's threadgroup arguments.
func (p *pipeline) noteStaticBytes(usedBytes int, x *dispatch) {
	for i := range x.threadgroupBytes {
		if p.Kernel().Threadgroup(i) != nil {
			usedBytes -= x.threadgroupBytes[i]
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.staticBytes = usedBytes
}

// regions returns the memory of the bindings, with overlapping bindings joined.
func (x *dispatch) regions() []touchedRegion {
	var all []touchedRegion
	for i := range x.Pipeline.Kernel().Arguments {
		a := &x.Pipeline.Kernel().Arguments[i]
		if a.Kind == msl.BufferArgument && !x.Pipeline.Absent(a) &&
			x.bindings[a.Index].Buffer != nil {
			all = append(all, touchedRegion{addresses: addressesOf(x.bindings[a.Index]),
				writable: !a.ReadOnly})
		}
	}
	slices.SortFunc(all, func(a, b touchedRegion) int { return cmp.Compare(a.from, b.from) })
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
