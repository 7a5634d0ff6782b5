package checkpoint

// The format pack-quantized of compressed-tensors: integers of 4 or 8 bits in words.

import "fmt"

// packQuantized returns the packing of a scheme of the format pack-quantized.
func packQuantized(s scheme) (p pack, why string) {
	if s.Type != "int" || s.Bits != 4 && s.Bits != 8 {
		return p, fmt.Sprintf("its weights have %d bits of type %q, expected integers of 4 or "+
			"8 bits", s.Bits, s.Type)
	}
	p = pack{Bits: s.Bits}
	switch {
	case s.Strategy == "channel" || s.Group < 0: // a scale for a row
	case s.Strategy == "group" || s.Strategy == "" && s.Group > 0:
		p.Group = s.Group
	default:
		return p, fmt.Sprintf("its scales have the strategy %q, expected group or channel",
			s.Strategy)
	}
	return p, ""
}
