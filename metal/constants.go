package metal

import (
	"fmt"

	"headroom/metal/msl"
)

// ConstantBits are the given values of a program's function constants as bits, in the order of its
// declarations. All constants must have one, and there must be no others.
func ConstantBits(p *msl.Program, given []ConstantValue) ([]uint32, error) {
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

// Absent tells whether constants, as ConstantBits gives them, switch off an argument of p's
// kernels.
func Absent(p *msl.Program, constants []uint32, a *msl.Argument) bool {
	for i, c := range p.Constants {
		if c.Name == a.Optional {
			return constants[i] == 0
		}
	}
	return false
}
