//go:build linux && amd64

package sim

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"headroom/metal"
)

// open makes a device for a test. It skips the test if clang is missing.
func open(t testing.TB, o Options) metal.Device {
	t.Helper()
	d, err := Open(o)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// source reads a source file in testdata.
func source(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func compile(t testing.TB, d metal.Device, name, text string) metal.Library {
	t.Helper()
	l, err := d.NewLibrary(name, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func pipelineOf(t testing.TB, d metal.Device, text, kernel string,
	constants ...metal.ConstantValue) metal.Pipeline {
	t.Helper()
	p, err := compile(t, d, "test.metal", text).Pipeline(kernel, constants...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// put makes a buffer with values in little-endian order.
func put(t testing.TB, d metal.Device, label string, values any) metal.Buffer {
	t.Helper()
	var b metal.Buffer
	n := binary.Size(values)
	b, err := d.NewBuffer(label, n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := binary.Encode(b.Bytes(), binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	return b
}

func float32s(b metal.Buffer) []float32 {
	v := make([]float32, len(b.Bytes())/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))
	}
	return v
}

// half rounds f to float16, ties to even. f must be 0 or in the normal range of float16.
func half(f float64) uint16 {
	b := math.Float32bits(float32(f))
	if f == 0 {
		return 0
	}
	h := (b>>23&0xff-112)<<10 | b>>13&0x3ff
	if rest := b & 0x1fff; rest > 0x1000 || rest == 0x1000 && h&1 == 1 {
		h++
	}
	return uint16(b>>16&0x8000 | h)
}

func fromHalf(h uint16) float64 {
	e, m := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(1024+m, e-25)
	if e == 0 {
		v = math.Ldexp(m, -24)
	}
	if h&0x8000 != 0 {
		return -v
	}
	return v
}

func fromHalves(b metal.Buffer) []float64 {
	v := make([]float64, len(b.Bytes())/2)
	for i := range v {
		v[i] = fromHalf(binary.LittleEndian.Uint16(b.Bytes()[2*i:]))
	}
	return v
}

// halves returns n random float16 numbers around mean.
func halves(r *rand.Rand, n int, mean, scale float64) []uint16 {
	v := make([]uint16, n)
	for i := range v {
		v[i] = half(mean + scale*r.NormFloat64())
	}
	return v
}

// call is one dispatch of a test.
type call struct {
	pipeline        metal.Pipeline
	bindings        []metal.Binding
	threadgroup     int // bytes of threadgroup argument 0, 0 for none
	groups, threads metal.Size
}

func (x call) record(c metal.Commands, label string) {
	c.SetPipeline(x.pipeline)
	c.SetBuffers(0, x.bindings...)
	if x.threadgroup > 0 {
		c.SetThreadgroupMemory(0, x.threadgroup)
	}
	c.Dispatch(label, x.groups, x.threads)
}

func (x call) run(d metal.Device) error {
	c := d.NewCommands()
	x.record(c, "test")
	c.Commit(nil)
	return c.Wait()
}

func bind(buffers ...metal.Buffer) []metal.Binding {
	var all []metal.Binding
	for _, b := range buffers {
		all = append(all, metal.Binding{Buffer: b})
	}
	return all
}

// within fails the test unless got and want differ by at most tol times the largest |want|.
func within(t *testing.T, got, want []float64, tol float64) {
	t.Helper()
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(w))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol*largest) {
			t.Fatalf("element %d: got %g, expected %g within %g", i, got[i], want[i], tol*largest)
		}
	}
}

// mentions fails the test unless err contains want.
func mentions(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, expected an error with %q", err, want)
	}
}
