package kernels_test

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"headroom/kernels"
	"headroom/kernels/attention"
	"headroom/kernels/cpu"
	"headroom/kernels/matmul"
	"headroom/kernels/recurrent"
)

// TestOperations compares the operation counts of operators with counts worked out by hand.
func TestOperations(t *testing.T) {
	d := kernels.NewDryRun()
	packed := &kernels.Weight{Experts: 4, N: 8, K: 64, Bits: 4, Group: 64}
	plain := &kernels.Weight{Experts: 1, N: 8, K: 64}
	x, ids := kernels.NewTensor(d, kernels.F32, 3, 64), kernels.NewTensor(d, kernels.I32, 3, 2)
	q := kernels.NewTensor(d, kernels.F32, 5, 2*32) // two query heads, one KV head
	page := func(f attention.Format) *attention.Cache {
		return attention.NewCache(d, f, f, 1, 32, 32, 1, attention.Start{})
	}
	// The three rows see 4, 5 and 10 positions.
	spans := []kernels.Span{{Rows: 2, Pos: 3, Pages: []int32{0}},
		{Row: 2, Rows: 1, Pos: 9, Pages: []int32{0}}}
	cases := []struct {
		name string
		op   kernels.OperationCounter
		want kernels.Operations
	}{
		{"linear", &matmul.Linear{X: x,
			Parts: []matmul.Part{{W: &kernels.Weight{Experts: 1, N: 8, K: 64, Bits: 4, Group: 64}},
				{W: plain}}},
			kernels.Operations{Int8: 2 * 3 * 8 * 64, Float32: 2 * 3 * 8 * 64}},
		{"experts", &matmul.Experts{X: x, IDs: ids, Parts: []matmul.Part{{W: packed}}},
			kernels.Operations{Int8: 2 * 6 * 8 * 64}},
		{"gate and up", &matmul.GateUp{X: x, IDs: ids, Gate: packed, Up: packed},
			kernels.Operations{Int8: 2 * 2 * 6 * 8 * 64}},
		{"attention", &attention.Attention{Q: q, Cache: page(attention.FloatFormat(kernels.F16)),
			Spans: spans}, kernels.Operations{Float32: 2 * 2 * 19 * 64}},
		{"a window of four", &attention.Attention{Q: q, Window: 4,
			Cache: page(attention.Format{Kind: attention.Affine, Bits: 8, Group: 32}),
			Spans: spans}, kernels.Operations{Int8: 2 * 2 * 12 * 64}},
		{"recurrence", &recurrent.GatedDelta{Spans: spans, Hv: 2, Dv: 3, Dk: 4},
			kernels.Operations{Float32: 7 * 3 * 24}},
		{"recurrence of Mamba-2", &recurrent.SSM{Spans: spans, Heads: 2, Dim: 3, N: 4},
			kernels.Operations{Float32: 5 * 3 * 24}},
	}
	for _, c := range cases {
		if got := c.op.Operations(); got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, got, c.want)
		}
	}
}

// TestDiscardOfWrappedDevices: devices that count or measure return memory as what they wrap does,
// and say so if that cannot.
func TestDiscardOfWrappedDevices(t *testing.T) {
	wraps := map[string]func(kernels.Device) kernels.Device{
		"counting": func(d kernels.Device) kernels.Device {
			return kernels.NewCountingDevice(d, new(atomic.Uint64))
		},
		"timed": func(d kernels.Device) kernels.Device {
			return kernels.NewTimedDevice(d, &kernels.OperatorTimes{})
		},
	}
	for name, wrap := range wraps {
		d, ok := wrap(kernels.NewCPU(cpu.Options{Threads: 1})).(kernels.Discarder)
		if !ok {
			t.Fatalf("%s: it cannot return memory", name)
		}
		b := d.NewBuffer(4 * os.Getpagesize())
		b.Bytes[0] = 1
		if err := d.Discard(b, 0, b.Size); err != nil ||
			runtime.GOOS == "linux" && b.Bytes[0] != 0 {
			t.Errorf("%s: %v, the first byte is %d", name, err, b.Bytes[0])
		}
		d.Close()
		dry := wrap(kernels.NewDryRun()).(kernels.Discarder)
		if err := dry.Discard(dry.NewBuffer(1), 0, 1); err == nil {
			t.Errorf("%s: a dry run has returned memory", name)
		}
	}
}

// TestOperatorTimes checks that only operators between Start and Stop are measured, by name.
func TestOperatorTimes(t *testing.T) {
	times := &kernels.OperatorTimes{}
	d := kernels.NewTimedDevice(kernels.NewCPU(cpu.Options{Threads: 1}), times)
	defer d.Close()
	w := &kernels.Weight{Experts: 1, N: 8, K: 64, Data: kernels.NewTensor(d, kernels.F32, 8, 64)}
	op := &matmul.Linear{X: kernels.NewTensor(d, kernels.F32, 3, 64),
		Parts: []matmul.Part{{W: w, Out: kernels.NewTensor(d, kernels.F32, 3, 8)}}}
	d.Run(op)
	if got := times.Stop(); got != nil {
		t.Errorf("before Start: got %v, expected nil", got)
	}
	times.Start()
	d.Run(op)
	d.Run(op)
	got := times.Stop()
	if l := got["linear"]; len(got) != 1 || l.Runs != 2 || l.Time <= 0 || l.Float32 != 2*2*3*8*64 {
		t.Errorf("two runs: %+v", got)
	}
	d.Run(op)
	if l := got["linear"]; l.Runs != 2 {
		t.Errorf("after Stop: still measuring: %+v", l)
	}
	times.Start()
	if got := times.Stop(); len(got) != 0 {
		t.Errorf("after a second Start: got earlier times: %v", got)
	}
}
