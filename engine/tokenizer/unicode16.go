package tokenizer

import "slices"

// Letters, marks and numbers that Unicode 15.1 and 16.0 have added. The regular expressions of the
// reference (tokenizers 0.23) include them, but Go's tables of Unicode 15.0 do not. This file can
// be deleted when Go's tables include them.

type classRange struct {
	from, to rune // inclusive
	class    class
}

var addedClasses = [...]classRange{
	{0x897, 0x897, mark},
	{0x1c89, 0x1c8a, letter},
	{0xa7cb, 0xa7cd, letter},
	{0xa7da, 0xa7dc, letter},
	{0x105c0, 0x105f3, letter},
	{0x10d40, 0x10d49, number},
	{0x10d4a, 0x10d65, letter},
	{0x10d69, 0x10d6d, mark},
	{0x10d6f, 0x10d85, letter},
	{0x10ec2, 0x10ec4, letter},
	{0x10efc, 0x10efc, mark},
	{0x11380, 0x11389, letter},
	{0x1138b, 0x1138b, letter},
	{0x1138e, 0x1138e, letter},
	{0x11390, 0x113b5, letter},
	{0x113b7, 0x113b7, letter},
	{0x113b8, 0x113c0, mark},
	{0x113c2, 0x113c2, mark},
	{0x113c5, 0x113c5, mark},
	{0x113c7, 0x113ca, mark},
	{0x113cc, 0x113d0, mark},
	{0x113d1, 0x113d1, letter},
	{0x113d2, 0x113d2, mark},
	{0x113d3, 0x113d3, letter},
	{0x113e1, 0x113e2, mark},
	{0x116d0, 0x116e3, number},
	{0x11bc0, 0x11be0, letter},
	{0x11bf0, 0x11bf9, number},
	{0x11f5a, 0x11f5a, mark},
	{0x13460, 0x143fa, letter},
	{0x16100, 0x1611d, letter},
	{0x1611e, 0x1612f, mark},
	{0x16130, 0x16139, number},
	{0x16d40, 0x16d6c, letter},
	{0x16d70, 0x16d79, number},
	{0x18cff, 0x18cff, letter},
	{0x1ccf0, 0x1ccf9, number},
	{0x1e5d0, 0x1e5ed, letter},
	{0x1e5ee, 0x1e5ef, mark},
	{0x1e5f0, 0x1e5f0, letter},
	{0x1e5f1, 0x1e5fa, number},
	{0x2ebf0, 0x2ee5d, letter},
}

// addedClass returns the class of a character that Go's tables lack. For all other characters it
// returns other.
func addedClass(r rune) class {
	if r < addedClasses[0].from {
		return other
	}
	i, _ := slices.BinarySearchFunc(addedClasses[:], r,
		func(c classRange, r rune) int { return int(c.to - r) })
	if i < len(addedClasses) && addedClasses[i].from <= r {
		return addedClasses[i].class
	}
	return other
}
