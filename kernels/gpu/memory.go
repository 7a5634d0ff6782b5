package gpu

// Memory that may be longer than a Metal buffer. Several buffers over the same pages then cover it.
// They have equal lengths, apart from the last one, and each begins before the end of the one
// before it:
//
//	memory    0 ................................................. length
//	buffer 0  [----------------)
//	buffer 1              [----------------)
//	buffer 2                          [------------------------- )
//
// So every range that is no longer than the overlap lies in one buffer, wherever it begins. A
// dispatch binds the buffer that holds its whole operand. A longer operand may lie in no buffer.
// Weights are then dispatched in ranges of rows or of experts (range.go), and any other operand is
// an error of the recording.

import (
	"fmt"

	"headroom/metal"
)

// overlapShare is the share of a buffer that overlaps with the next one, as a divisor. Metal may
// count overlapping pages twice, so it should be small. But it must hold any operand that has no
// ranges.
const overlapShare = 8

// memory is the Handle of a kernels.Buffer on this device.
type memory struct {
	buffers  []metal.Buffer // empty if the device has refused the memory
	step     int            // bytes from the start of one buffer to the start of the next
	offset   int            // of the kernels.Buffer's first byte in the memory
	readOnly bool           // never written, so it has no hazards
}

// oneBuffer returns the memory of a single buffer.
func oneBuffer(b metal.Buffer) *memory { return &memory{buffers: []metal.Buffer{b}, step: 1} }

// cover wraps whole pages in as many buffers as necessary. If the device refuses one of them, cover
// frees the others.
func cover(m metal.Device, label string, pages []byte) (*memory, error) {
	facts := m.Facts()
	longest := len(pages)
	if uint64(longest) > facts.MaxBufferLength {
		longest = int(facts.MaxBufferLength) / facts.PageBytes * facts.PageBytes
	}
	overlap := longest / overlapShare / facts.PageBytes * facts.PageBytes
	c := &memory{step: max(longest-overlap, facts.PageBytes)}
	for from := 0; ; from += c.step {
		to := min(from+longest, len(pages))
		b, err := m.WrapBuffer(label, pages[from:to])
		if err != nil {
			for _, wrapped := range c.buffers {
				m.Free(wrapped)
			}
			return nil, err
		}
		if c.buffers = append(c.buffers, b); to == len(pages) {
			return c, nil
		}
	}
}

// holder returns the index of the buffer that holds the most bytes from the given one on.
func (m *memory) holder(from int) int { return min(from/m.step, len(m.buffers)-1) }

// reach returns the end of the longest range from the given byte on that lies in one buffer.
func (m *memory) reach(from int) int {
	if len(m.buffers) == 0 {
		return from
	}
	i := m.holder(from)
	return i*m.step + len(m.buffers[i].Bytes())
}

// binding returns the binding of bytes [from, from+bytes). The error wraps metal.ErrBufferLength if
// they do not lie in one buffer.
func (m *memory) binding(from, bytes int) (metal.Binding, error) {
	if len(m.buffers) == 1 {
		return metal.Binding{Buffer: m.buffers[0], Offset: from, Bytes: bytes}, nil
	}
	i := m.holder(from)
	if from+bytes > m.reach(from) {
		return metal.Binding{}, fmt.Errorf("got an operand of %d bytes, expected at most %d, "+
			"which lie in one buffer wherever they begin: %w", bytes,
			len(m.buffers[0].Bytes())-m.step, metal.ErrBufferLength)
	}
	return metal.Binding{Buffer: m.buffers[i], Offset: from - i*m.step, Bytes: bytes}, nil
}
