package kerneltest

// Cases on simulated devices with short Metal buffers, which split memory as a Mac does with a
// model that is longer than its longest buffer.

import (
	"errors"
	"testing"

	"headroom/kernels"
	"headroom/metal"
	"headroom/metal/sim"
)

const (
	// leastBuffer is the first length of the longest buffer that a case runs with, in bytes.
	leastBuffer = 32 << 10
	// mostBuffer is a length that splits no case.
	mostBuffer = 1 << 30
)

// splitter runs cases on the shortest buffers that hold those operands that have no ranges.
type splitter struct {
	t       *testing.T          // closes the devices when it ends
	devices map[uint64]*counter // by MaxBufferLength
	split   int                 // cases that took more dispatches than on undivided memory
}

// run returns the outputs of c, nil after an error. dispatches is their number on undivided memory.
func (s *splitter) run(t *testing.T, c kernels.Case, reached map[string]bool,
	dispatches int) []output {
	t.Helper()
	for longest := uint64(leastBuffer); ; longest *= 2 {
		m := s.devices[longest]
		if m == nil {
			m = &counter{Device: simulated(s.t,
				sim.Options{Check: true, Seed: 2, MaxBufferLength: longest})}
			s.devices[longest] = m
		}
		m.dispatches = 0
		all, err := metalOutputs(t, m, c, reached)
		if errors.Is(err, metal.ErrBufferLength) && longest < mostBuffer {
			continue // an operand without ranges is longer
		}
		if err != nil {
			t.Errorf("%s, buffers of at most %d bytes: %v", m.Facts().Name, longest, err)
			return nil
		}
		if m.dispatches > dispatches {
			s.split++
		}
		return all
	}
}

// counter is a device that counts dispatches.
type counter struct {
	metal.Device
	dispatches int
}

func (d *counter) NewCommands() metal.Commands {
	return &countedCommands{d.Device.NewCommands(), d}
}

type countedCommands struct {
	metal.Commands
	d *counter
}

func (c *countedCommands) Dispatch(label string, groups, threads metal.Size) {
	c.d.dispatches++
	c.Commands.Dispatch(label, groups, threads)
}
