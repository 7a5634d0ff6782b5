package base

import (
	"fmt"

	"headroom/metal"
	"headroom/metal/msl"
)

// Function is a kernel with a value for each function constant of its program: a specialized
// function in Metal's terms. A device's pipeline embeds it. It is immutable.
type Function struct {
	kernel    *msl.Kernel
	program   *msl.Program
	constants []uint32
}

// Kernel implements metal.Pipeline.
func (f *Function) Kernel() *msl.Kernel { return f.kernel }

// Program returns the program of the kernel.
func (f *Function) Program() *msl.Program { return f.program }

// Constants returns the bits of the function constants' values, in the order of the program's
// declarations.
func (f *Function) Constants() []uint32 { return f.constants }

// Absent reports whether a is an optional argument whose function constant is false.
func (f *Function) Absent(a *msl.Argument) bool {
	for i, c := range f.program.Constants {
		if c.Name == a.Optional {
			return f.constants[i] == 0
		}
	}
	return false
}

// constantBits returns the bits of the function constants' values, in the order of the program's
// declarations. It returns an error unless each constant has one value and each value a constant.
func constantBits(p *msl.Program, given []metal.ConstantValue) ([]uint32, error) {
	var all []uint32
	for _, c := range p.Constants {
		before := len(all)
		for _, g := range given {
			if g.Name != c.Name {
				continue
			}
			bits, err := c.Bits(g.Value)
			if err != nil {
				return nil, err
			}
			all = append(all, bits)
		}
		switch len(all) - before {
		case 0:
			return nil, fmt.Errorf("function constant %s has no value: give it one", c.Name)
		case 1:
		default:
			return nil, fmt.Errorf("function constant %s has %d values: give it one", c.Name,
				len(all)-before)
		}
	}
	if len(given) != len(all) {
		return nil, fmt.Errorf("got %d function constants, the source declares %d", len(given),
			len(all))
	}
	return all, nil
}
