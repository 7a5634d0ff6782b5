//go:build nv && linux

package nv

// Graphs. Decoding commits the same dispatches for each token, with few other arguments. When a
// sequence of kernels comes a second time, it becomes a CUDA graph, which the driver launches at
// once; a launch of each dispatch takes 3 to 4 µs of the host's time. Later commits of the sequence
// change only the nodes whose arguments differ. It is what an indirect command buffer is on Metal.
//
// In a graph, a dispatch waits for the interval before it, and for the dispatch of its interval
// whose place it takes: the driver runs as many at a time as there are streams.

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"headroom/metal/base"
)

const (
	leastGraph = 8 // dispatches of a graph
	mostGraphs = 4 // of a recorder; the oldest is dropped
	mostOnce   = 8 // sequences kept that have come once
)

// graph is a sequence of dispatches that the driver knows.
type graph struct {
	sequence  uint64    // see sequence
	exec      uintptr   // CUgraphExec
	graph     uintptr   // CUgraph
	nodes     []uintptr // CUgraphNode, of each dispatch
	last      []shape   // of each dispatch, as the nodes have them
	arguments []uint64  // of all dispatches
}

// shape is what of a dispatch is in its node.
type shape struct {
	groups, threads [3]int
	threadgroupSize int
	arguments       int // number
}

func shapeOf(x *dispatch) shape {
	g, t := x.Groups, x.Threads
	return shape{[3]int{g.X, g.Y, g.Z}, [3]int{t.X, t.Y, t.Z}, x.threadgroupSize, len(x.arguments)}
}

// nodeParams is CUDA_KERNEL_NODE_PARAMS_v1.
type nodeParams struct {
	f                      uintptr
	gridX, gridY, gridZ    uint32
	blockX, blockY, blockZ uint32
	sharedBytes            uint32
	kernelParams, extra    uintptr
}

// params returns the parameters of a dispatch's node. They point into x.
func (x *dispatch) params() nodeParams {
	x.argumentBytes = uintptr(8 * len(x.arguments))
	x.extra = [...]uintptr{launchBufferPointer,
		uintptr(unsafe.Pointer(unsafe.SliceData(x.arguments))),
		launchBufferSize, uintptr(unsafe.Pointer(&x.argumentBytes)), 0}
	return nodeParams{f: x.Pipeline.f,
		gridX: uint32(x.Groups.X), gridY: uint32(x.Groups.Y), gridZ: uint32(x.Groups.Z),
		blockX: uint32(x.Threads.X), blockY: uint32(x.Threads.Y), blockZ: uint32(x.Threads.Z),
		sharedBytes: uint32(x.threadgroupSize), extra: uintptr(unsafe.Pointer(&x.extra))}
}

// sequence returns a hash of the kernels and barriers of a recording (FNV-1a).
func sequence(recorded []dispatch) uint64 {
	h := uint64(14695981039346656037)
	for i := range recorded {
		x := &recorded[i]
		for _, v := range [...]uint64{uint64(x.Pipeline.f), uint64(x.BarriersBefore())} {
			h = (h ^ v) * 1099511628211
		}
	}
	return h
}

// graphs has the sequences that a recorder has committed.
type graphs struct {
	known []*graph
	once  []uint64 // sequences that have come once
}

// launch launches a recording as a graph, if its sequence has come before. The driver's context
// must be current.
func (gs *graphs) launch(d *Device, recorded []dispatch) (done bool, err error) {
	v := d.driver
	if len(recorded) < leastGraph {
		return false, nil
	}
	h := sequence(recorded)
	i := slices.IndexFunc(gs.known, func(g *graph) bool {
		return g.sequence == h && len(g.nodes) == len(recorded)
	})
	if i < 0 {
		if !slices.Contains(gs.once, h) {
			if len(gs.once) == mostOnce {
				gs.once = append(gs.once[:0], gs.once[1:]...)
			}
			gs.once = append(gs.once, h)
			return false, nil
		}
		g, err := newGraph(v, h, recorded, len(d.streams))
		if err != nil {
			return false, err
		}
		if len(gs.known) == mostGraphs {
			gs.known[0].free(v)
			gs.known = append(gs.known[:0], gs.known[1:]...)
		}
		gs.known, i = append(gs.known, g), len(gs.known)
	}
	g := gs.known[i]
	if err := g.update(v, recorded); err != nil {
		return false, err
	}
	return true, v.call("cuGraphLaunch", v.graphLaunch, g.exec, d.streams[0])
}

// newGraph makes a graph of a recording, with at most the given number of dispatches at a time.
func newGraph(v *driver, sequence uint64, recorded []dispatch, streams int) (*graph, error) {
	g := &graph{sequence: sequence}
	var err error
	if g.graph, err = get[uintptr](v, "cuGraphCreate", v.graphCreate, 0); err != nil {
		return nil, err
	}
	var before []uintptr // nodes of the interval before
	for interval := range base.Intervals(recorded) {
		begin := len(g.nodes)
		for i := range interval {
			x := &interval[i]
			p := x.params()
			if i >= streams { // it also takes the place of an earlier one
				before = g.nodes[begin+i-streams : begin+i-streams+1]
			}
			node, err := get[uintptr](v, "cuGraphAddKernelNode", v.graphAddKernel, g.graph,
				uintptr(unsafe.Pointer(unsafe.SliceData(before))), uintptr(len(before)),
				pointer(&p))
			if err != nil {
				g.free(v)
				return nil, fmt.Errorf("dispatch %q: %w", x.Label, err)
			}
			g.nodes = append(g.nodes, node)
			g.last = append(g.last, shapeOf(x))
			g.arguments = append(g.arguments, x.arguments...)
			runtime.KeepAlive(&p)
		}
		before = slices.Clone(g.nodes[max(begin, len(g.nodes)-streams):])
	}
	g.exec, err = get[uintptr](v, "cuGraphInstantiateWithFlags", v.graphInstantiate, g.graph, 0)
	if err != nil {
		g.free(v)
		return nil, err
	}
	return g, nil
}

// pointer returns the address of p, which escapes to the heap, where Go moves nothing.
func pointer(p *nodeParams) uintptr {
	escaped = p
	return uintptr(unsafe.Pointer(p))
}

var escaped *nodeParams

// update changes the nodes that differ from a recording of the same sequence.
func (g *graph) update(v *driver, recorded []dispatch) error {
	at := 0
	for i := range recorded {
		x := &recorded[i]
		own := g.arguments[at : at+len(x.arguments)]
		at += len(x.arguments)
		s := shapeOf(x)
		if g.last[i] == s && slices.Equal(own, x.arguments) {
			continue
		}
		p := x.params()
		if err := v.call("cuGraphExecKernelNodeSetParams", v.graphSetKernel, g.exec, g.nodes[i],
			pointer(&p)); err != nil {
			return fmt.Errorf("dispatch %q: %w", x.Label, err)
		}
		runtime.KeepAlive(&p)
		g.last[i] = s
		copy(own, x.arguments)
	}
	return nil
}

// free frees a graph. What cannot be freed is lost until the process ends.
func (g *graph) free(v *driver) {
	if g.exec != 0 {
		_ = v.call("cuGraphExecDestroy", v.graphExecDestroy, g.exec)
	}
	_ = v.call("cuGraphDestroy", v.graphDestroy, g.graph)
}
