package transfer

import (
	"testing"

	"headroom/kernels"
	"headroom/kernels/kerneltest"
)

func TestCases(t *testing.T)      { kerneltest.Run(t, Cases()) }
func BenchmarkCases(b *testing.B) { kerneltest.Bench(b, Cases()) }

func TestCopies(t *testing.T) {
	b := &kernels.Buffer{Bytes: []byte("abcdef"), Size: 6}
	o := &Copy{Buffer: b, From: 1, To: 4, Bytes: 2}
	if o.Reference(); string(b.Bytes) != "abcdbc" {
		t.Errorf("got %q, expected \"abcdbc\"", b.Bytes)
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
			t.Errorf("%+v: got %v, expected ok %t", c.op, err, c.ok)
		}
	}
}
