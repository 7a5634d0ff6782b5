package transfer

import (
	"bytes"
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }
func BenchmarkNV(b *testing.B)    { kerneltest.BenchNV(b, kerneltest.Timings(Cases())) }

func TestCopies(t *testing.T) {
	b := &kernels.Buffer{Bytes: []byte("abcdef"), Size: 6}
	o := &Copy{Buffer: b, From: 1, To: 4, Bytes: 2}
	if o.Reference(); string(b.Bytes) != "abcdbc" {
		t.Errorf("got %q, expected \"abcdbc\"", b.Bytes)
	}
}

// TestCopiesAnywhere copies ranges of any alignment and checks that bytes outside the target do not
// change.
func TestCopiesAnywhere(t *testing.T) {
	for _, d := range kerneltest.Devices(t) {
		for _, c := range []Copy{{From: 0, To: 4096, Bytes: 64}, {From: 16, To: 160, Bytes: 80},
			{From: 5, To: 3000, Bytes: 2000}, {From: 4091, To: 2, Bytes: 3},
			{From: 16, To: 164, Bytes: 96}, {From: 17, To: 1, Bytes: 15},
			{From: 32, To: 64, Bytes: 7}, {From: 9, To: 9, Bytes: 0}} {
			c.Buffer = d.NewBuffer(5000)
			for i := range c.Buffer.Bytes {
				c.Buffer.Bytes[i] = byte(i * 7 % 251)
			}
			want := bytes.Clone(c.Buffer.Bytes)
			copy(want[c.To:c.To+c.Bytes], want[c.From:c.From+c.Bytes])
			d.Run(&c)
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(c.Buffer.Bytes, want) {
				t.Errorf("%s: %d bytes from %d to %d: the result differs", d.Name(), c.Bytes,
					c.From, c.To)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	b := &kernels.Buffer{Bytes: make([]byte, 8), Size: 8}
	for _, c := range []struct {
		op Copy
		ok bool
	}{
		{Copy{b, 0, 4, 4}, true},
		{Copy{b, 4, 0, 4}, true},
		{Copy{b, 3, 3, 0}, true},
		{Copy{b, 0, 3, 4}, false},
		{Copy{b, 3, 0, 4}, false},
		{Copy{b, 0, 5, 4}, false},
		{Copy{b, -1, 4, 2}, false},
		{Copy{nil, 0, 4, 2}, false},
	} {
		if err := c.op.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: got error %v, expected none: %t", c.op, err, c.ok)
		}
	}
}

func TestMetalCases(t *testing.T) { kerneltest.RunMetal(t, Cases()) }
