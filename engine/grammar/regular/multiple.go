package regular

// Multiples of a number. As an automaton of remainders, whose states are made when they are needed,
// they combine with everything else.

// MaxDivisor is the largest divisor of Multiples.
const MaxDivisor = 100_000

// maxPlaces is the largest number of places of Multiples.
const maxPlaces = 20

// Multiples returns the expression of texts of digits, with a point or without, whose number is a
// multiple of divisor / 10^places. Whether there are digits on both sides of the point does not
// matter. It panics if an argument is out of range: MaxDivisor and 20 places.
func (s *Space) Multiples(divisor, places int) Expr {
	if divisor < 1 || divisor > MaxDivisor || places < 0 || places > maxPlaces {
		panic("regular.Space.Multiples: argument out of range")
	}
	for digit := byte('0'); digit <= '9'; digit++ {
		s.Set(Of(string(digit))) // a class of its own
	}
	s.Set(Of("."))
	return s.multiple(divisor, multipleState{left: places})
}

// multipleState is the state after some digits.
type multipleState struct {
	remainder int
	left      int // places that are left
	fraction  bool
}

func (m multipleState) pack() int {
	packed := m.remainder<<8 | m.left<<1
	if m.fraction {
		packed |= 1
	}
	return packed
}

func (s *Space) multiple(divisor int, m multipleState) Expr {
	rest := m.remainder
	for range m.left {
		rest = rest * 10 % divisor
	}
	return s.intern(node{kind: kindMultiple, min: divisor, max: m.pack(), nullable: rest == 0})
}

func (s *Space) deriveMultiple(n node, b byte) Expr {
	m := multipleState{n.max >> 8, n.max >> 1 & 127, n.max&1 == 1}
	switch {
	case b == '.' && !m.fraction:
		m.fraction = true
	case b < '0' || b > '9' || b > '0' && m.fraction && m.left == 0:
		return None
	case m.fraction && m.left == 0: // a zero at the end
	default:
		m.remainder = (10*m.remainder + int(b-'0')) % n.min
		if m.fraction {
			m.left--
		}
	}
	return s.multiple(n.min, m)
}
