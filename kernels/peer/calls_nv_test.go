//go:build nv && linux

package peer

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"

	"headroom/kernels"
	"headroom/metal"
	"headroom/metal/nv"
)

// mlxKernel is an instance of a template of MLX, with its function constants.
type mlxKernel struct {
	instance  string
	files     []string
	constants map[string]any // those that are not listed are false or 0
}

// call is a dispatch of a kernel of MLX with its operands.
type call struct {
	label    string
	pipeline metal.Pipeline
	bindings []metal.Binding
	groups   metal.Size
	threads  metal.Size
}

// mlxSide makes and runs MLX's dispatches on a device.
type mlxSide struct {
	t        testing.TB
	d        *nv.Device
	commands metal.Commands
	buffers  []metal.Buffer
}

func newMLXSide(t testing.TB, d *nv.Device) *mlxSide {
	return &mlxSide{t: t, d: d, commands: d.NewCommands()}
}

// free releases the operands.
func (m *mlxSide) free() {
	for _, b := range m.buffers {
		m.d.Free(b)
	}
	m.buffers = nil
}

// pipelines has the kernels that were made, by device, instance and constants.
var pipelines = map[string]metal.Pipeline{}

// pipeline compiles a kernel.
func (m *mlxSide) pipeline(k mlxKernel) metal.Pipeline {
	m.t.Helper()
	key := fmt.Sprintf("%p %s %v", m.d, k.instance, k.constants)
	if pipelines[key] == nil {
		pipelines[key] = m.newPipeline(k)
	}
	return pipelines[key]
}

func (m *mlxSide) newPipeline(k mlxKernel) metal.Pipeline {
	m.t.Helper()
	text, err := source(os.DirFS(*mlxFolder), k.instance, k.files...)
	if err != nil {
		m.t.Fatal(err)
	}
	library, err := m.d.NewLibrary("mlx.metal", text, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	var values []metal.ConstantValue
	for _, c := range library.Program().Constants {
		v, ok := k.constants[c.Name]
		if !ok {
			v = map[string]any{"bool": false, "int": int32(0)}[c.Type]
		}
		values = append(values, metal.ConstantValue{Name: c.Name, Value: v})
	}
	p, err := library.Pipeline("peer", values...)
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// memory returns a buffer with that content.
func (m *mlxSide) memory(content []byte) metal.Binding {
	b := m.empty(len(content))
	copy(b.Buffer.Bytes(), content)
	return b
}

// empty returns a buffer of zeros.
func (m *mlxSide) empty(bytes int) metal.Binding {
	m.t.Helper()
	b, err := m.d.Allocate("mlx", bytes)
	if err != nil {
		m.t.Fatal(err)
	}
	m.buffers = append(m.buffers, b)
	return metal.Binding{Buffer: b}
}

// scalars returns a binding for each value: int is 4 bytes, int64 8, and slices are arrays.
func (m *mlxSide) scalars(values ...any) []metal.Binding {
	m.t.Helper()
	const apart = 64
	all := m.empty(apart * len(values))
	var bindings []metal.Binding
	for i, v := range values {
		if n, ok := v.(int); ok {
			v = int32(n)
		}
		b, err := binary.Append(nil, binary.LittleEndian, v)
		if err != nil || len(b) > apart {
			m.t.Fatalf("a value of type %T: %v", v, err)
		}
		copy(all.Buffer.Bytes()[apart*i:], b)
		bindings = append(bindings, metal.Binding{Buffer: all.Buffer, Offset: apart * i})
	}
	return bindings
}

// run records calls, one after another.
func (m *mlxSide) run(calls []call) {
	for _, c := range calls {
		m.commands.SetPipeline(c.pipeline)
		m.commands.SetBuffers(0, c.bindings...)
		m.commands.Dispatch(c.label, c.groups, c.threads)
		m.commands.Barrier()
	}
}

// sync runs what was recorded.
func (m *mlxSide) sync() error {
	m.commands.Commit(nil)
	return m.commands.Wait()
}

// bf16 rounds to bfloat16, to nearest even.
func bf16(v float32) uint16 {
	bits := math.Float32bits(v)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

func fromBF16(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }

// roundedToBF16 rounds the elements of a float32 tensor to bfloat16 and returns their bytes.
func roundedToBF16(t kernels.Tensor) []byte {
	var out []byte
	for row := range t.Rows {
		x := t.Row(row)
		for i, v := range x {
			h := bf16(v)
			x[i] = fromBF16(h)
			out = binary.LittleEndian.AppendUint16(out, h)
		}
	}
	return out
}

// floats reads bfloat16.
func floats(b []byte) []float32 {
	out := make([]float32, len(b)/2)
	for i := range out {
		out[i] = fromBF16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return out
}
