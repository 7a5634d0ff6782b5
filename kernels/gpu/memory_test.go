package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/metal"
	"headroom/metal/sim"
)

const page = 4096

// limited is a recording device whose buffers have a greatest length. It refuses one buffer over
// the caller's memory, the first if refused is 1, and lists the buffers that are freed.
type limited struct {
	recording
	longest, refused int
	wrapped, freed   []metal.Buffer
}

func (d *limited) Facts() metal.Facts {
	return metal.Facts{Name: "limited", PageBytes: page, MaxBufferLength: uint64(d.longest)}
}

func (d *limited) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if len(memory) > d.longest {
		return nil, fmt.Errorf("%d bytes: %w", len(memory), metal.ErrBufferLength)
	}
	if len(d.wrapped) == d.refused-1 {
		d.refused = 0
		return nil, errors.New("refused")
	}
	b, err := d.recording.WrapBuffer(label, memory)
	d.wrapped = append(d.wrapped, b)
	return b, err
}

func (d *limited) Free(b metal.Buffer) { d.freed = append(d.freed, b) }

// TestCover checks that the buffers over a piece of memory are whole pages within the limit, and
// that every range is bound to its own bytes: always up to the overlap, and otherwise if and only
// if a buffer holds it.
func TestCover(t *testing.T) {
	const most = 40
	pages := cpu.Map(most * page)
	defer cpu.Unmap(pages)
	for _, c := range []struct{ pages, longest, buffers, overlap int }{
		{1, page, 1, 0}, {8, 8 * page, 1, 0}, {9, 8 * page, 2, page}, {40, 8 * page, 6, page},
		{15, 8 * page, 2, page}, {16, 8 * page, 3, page}, {40, 16*page + 17, 3, 2 * page},
		{3, page, 3, 0}, {40, 39 * page, 2, 4 * page},
	} {
		memory := pages[:c.pages*page]
		d := &limited{longest: c.longest}
		m, err := cover(d, "test", memory)
		if err != nil || len(m.buffers) != c.buffers {
			t.Fatalf("%+v: got %d buffers, error %v", c, len(m.buffers), err)
		}
		for from := 0; from < len(memory); from += page / 4 {
			for to := from; to <= len(memory); to += page / 2 {
				held := slices.ContainsFunc(d.wrapped, func(b metal.Buffer) bool {
					start := cap(memory) - cap(b.Bytes())
					return from >= start && to <= start+len(b.Bytes())
				})
				b, err := m.binding(from, to-from)
				switch {
				case !held && !errors.Is(err, metal.ErrBufferLength),
					held && err != nil, !held && to-from <= c.overlap:
					t.Fatalf("%+v: bytes [%d, %d): held is %t, error %v", c, from, to, held, err)
				case err == nil && (cap(memory)-cap(b.Buffer.Bytes())+b.Offset != from ||
					b.Bytes != to-from):
					t.Fatalf("%+v: bytes [%d, %d) are bound as [%d, %d) of %d bytes", c, from, to,
						b.Offset, b.Offset+b.Bytes, len(b.Buffer.Bytes()))
				}
			}
		}
	}
}

// TestRefusedBuffers checks that the buffers of a mapping are freed if the device refuses one of
// them, and that a mapping is copied then.
func TestRefusedBuffers(t *testing.T) {
	file := cpu.Map(40 * page)
	defer cpu.Unmap(file)
	for refused := 1; refused <= 6; refused++ {
		m := &limited{longest: 8 * page, refused: refused}
		d, err := New(m)
		if err != nil {
			t.Fatal(err)
		}
		d.NewBuffer(len(file))
		if err := d.Sync(); err == nil || err.Error() != "refused" {
			t.Errorf("buffer %d is refused: got %v", refused, err)
		}
		if !slices.Equal(m.freed, m.wrapped) || len(m.freed) != refused-1 {
			t.Errorf("buffer %d is refused: freed %d of %d buffers", refused, len(m.freed),
				len(m.wrapped))
		}
		d.Close()
	}
	m := &limited{longest: 8 * page, refused: 3}
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	file[20*page] = 7
	b := d.WrapBuffer(file)
	if copied, why := d.Copied(); len(m.freed) != 2 || copied != int64(len(file)) || why == nil ||
		b.Bytes[20*page] != 7 || &b.Bytes[0] == &file[0] {
		t.Errorf("freed %d buffers over the file and copied %d bytes (%v), expected 2 and %d",
			len(m.freed), copied, why, len(file))
	}
	if err := d.MakeResident(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.events, "; "); strings.Contains(got, "weights") {
		t.Errorf("freed buffers are made resident: %s", got)
	}
}

// splitDevice returns a simulated device in checking mode whose buffers have at most eight pages,
// and overlap by one.
func splitDevice(t *testing.T) *Device {
	t.Helper()
	m, err := sim.Open(sim.Options{Check: true, Seed: 4, MaxBufferLength: 8 * page})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// floatsAt returns n floats from byte at of b.
func floatsAt(b *kernels.Buffer, at, n int) kernels.Tensor {
	return kernels.Tensor{Buffer: b, Offset: at, DType: kernels.F32, Rows: 1, Cols: n, Stride: n}
}

// TestHazardsAcrossBuffers checks that a dispatch waits for another one that has written the same
// bytes through another Metal buffer. The simulated device finds a missing barrier, too.
func TestHazardsAcrossBuffers(t *testing.T) {
	d := splitDevice(t)
	b, other := d.NewBuffer(20*page), kernels.NewTensor(d, kernels.F32, 1, 64)
	first := floatsAt(b, 7*page-128, 64)  // in the first buffer
	second := floatsAt(b, 7*page, 64)     // in the second one; 32 floats are the same
	apart := floatsAt(b, 7*page+4096, 64) // in the second one
	for _, c := range []struct {
		name     string
		ops      []*add
		barriers int
	}{
		{"read after write", []*add{{x: other, out: first}, {x: second, out: apart}}, 1},
		{"write after read", []*add{{x: first, out: other}, {x: apart, out: second}}, 1},
		{"write after write", []*add{{x: other, out: first}, {x: other, out: second}}, 1},
		{"other bytes", []*add{{x: other, out: first}, {x: other, out: apart}}, 0},
		{"reads", []*add{{x: first, out: other}, {x: second, out: apart}}, 0},
	} {
		before, bound := d.context.barriers, map[metal.Buffer]bool{}
		for _, o := range c.ops {
			for _, x := range []kernels.Tensor{o.x, o.out} {
				if x.Buffer == b {
					got, err := b.Handle.(*memory).binding(x.Offset, x.Cols*4)
					if err != nil {
						t.Fatal(err)
					}
					bound[got.Buffer] = true
				}
			}
			d.Run(o)
		}
		if len(bound) != 2 {
			t.Fatalf("%s: the operands are in %d buffers, expected 2", c.name, len(bound))
		}
		if got := d.context.barriers - before; got != c.barriers {
			t.Errorf("%s: got %d barriers, expected %d", c.name, got, c.barriers)
		}
		if err := d.Sync(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLongOperand checks that an operand without ranges is refused if no buffer holds it, and not
// otherwise.
func TestLongOperand(t *testing.T) {
	for _, c := range []struct {
		at, bytes int
		fits      bool
	}{
		{0, 8 * page, true}, {7 * page, 8 * page, true}, {7*page - 4, page + 4, true},
		{7*page - 8, page + 12, false}, {4, 8 * page, false}, {14 * page, 6 * page, true},
	} {
		d := splitDevice(t)
		x, out := floatsAt(d.NewBuffer(20*page), c.at, c.bytes/4), kernels.NewTensor(d, kernels.F32,
			1, c.bytes/4)
		d.Run(&add{x: x, out: out})
		if err := d.Sync(); c.fits == errors.Is(err, metal.ErrBufferLength) ||
			c.fits && err != nil {
			t.Errorf("bytes [%d, %d): got %v", c.at, c.at+c.bytes, err)
		}
	}
}

// TestSplitAllocatesNothing checks that dispatches on split memory and ranges of a split weight
// allocate no Go memory.
func TestSplitAllocatesNothing(t *testing.T) {
	m := &limited{longest: 8 * page}
	d, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	for i := range d.context.recorders {
		d.context.recorders[i].commands.(*recordedCommands).silent = true
	}
	b := d.NewBuffer(40 * page)
	op := &add{x: floatsAt(b, 7*page-16, 8), out: floatsAt(b, 30*page, 8)}
	w := splitWeight(b, 3, 50, 100, 0)
	for range maxAccesses {
		d.Run(op)
	}
	if n := testing.AllocsPerRun(3*maxDispatches, func() {
		d.Run(op)
		for at := 0; at < w.Experts*w.N; {
			r := RangeFrom(at, w, nil)
			ReadWeight(w, r)
			at += r.Experts * r.Rows
		}
	}); n != 0 {
		t.Errorf("a dispatch makes %g allocations, expected none", n)
	}
}
