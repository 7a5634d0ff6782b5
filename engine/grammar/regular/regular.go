// Package regular describes sets of byte texts by regular expressions with intersection and
// complement, and matches them byte by byte.
//
// An expression is matched by derivatives (Brzozowski 1964; Owens, Reppy and Turon 2009, "Regular-
// expression derivatives re-examined"). The derivative of e by a byte b is the expression of all
// that may follow b in a text of e. A text belongs to e if its last derivative contains the empty
// text. So there is no automaton to build beforehand: intersection, complement and repetition with
// large counts cost nothing until a text reaches them, and each derivative is computed once.
//
//	regular.go     expressions and their construction
//	derivative.go  derivatives, and the search for any text
//	runes.go       characters as UTF-8
//	multiple.go    multiples of a number
//	pattern.go     patterns of ECMA-262 as expressions
//	parse.go       parses them
//
// A Space and its expressions belong to one goroutine at a time.
package regular

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"math/bits"
	"slices"
)

// Expr is an expression of a Space. Two expressions that are equal as numbers match the same texts.
// The reverse need not hold.
type Expr int32

// The expressions that every Space has.
const (
	None  Expr = iota // matches nothing
	Empty             // matches the empty text alone
	All               // matches every text
	Any               // matches one byte
)

// Unlimited as the maximum of Repeat means that there is none.
const Unlimited = -1

// Set is a set of bytes. Byte b belongs to it if bit b%64 of element b/64 is set.
type Set [4]uint64

// Range returns the bytes from lo to hi, both included.
func Range(lo, hi byte) (s Set) {
	for b := int(lo); b <= int(hi); b++ {
		s.add(byte(b))
	}
	return s
}

// Of returns the bytes of text.
func Of(text string) (s Set) {
	for i := range len(text) {
		s.add(text[i])
	}
	return s
}

func (s *Set) add(b byte)     { s[b/64] |= 1 << (b % 64) }
func (s Set) has(b byte) bool { return s[b/64]>>(b%64)&1 != 0 }

// Not returns all other bytes.
func (s Set) Not() Set { return Set{^s[0], ^s[1], ^s[2], ^s[3]} }

// Or returns the bytes of both.
func (s Set) Or(t Set) Set { return Set{s[0] | t[0], s[1] | t[1], s[2] | t[2], s[3] | t[3]} }

// And returns the bytes that are in both.
func (s Set) And(t Set) Set { return Set{s[0] & t[0], s[1] & t[1], s[2] & t[2], s[3] & t[3]} }

func (s Set) size() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

type kind uint8

const (
	kindNone     kind = iota
	kindEmpty         // the empty text
	kindSet           // one byte of set
	kindConcat        // kids[0], then kids[1], which is no concatenation on its left
	kindOr            // one of kids
	kindAnd           // all of kids
	kindNot           // not kids[0]
	kindRepeat        // kids[0], min to max times
	kindMultiple      // digits, see multiple.go; min is the divisor, max the rest of the state
)

type node struct {
	kind     kind
	nullable bool // matches the empty text
	searched bool // has And or Not inside: whether it matches anything must be searched
	set      Set
	kids     []Expr
	min, max int
}

// Space holds expressions. Equal expressions are stored once.
type Space struct {
	nodes []node
	index map[string]Expr
	key   []byte // buffer
	limit int    // most nodes; 0: none
	bytes int    // about the memory of all
	most  int    // with more bytes, nodes are refused; 0: none
	full  bool   // a node was refused
	spent bool   // the work was over the limit

	classes     [256]uint8        // of bytes that no set of the Space distinguishes
	classCount  int               // 0: not computed
	classByte   [256]byte         // a byte of each class
	derivatives [][]Expr          // by expression and class; notYet: not computed
	choices     map[Expr][][]Expr // see beginning
	alive       map[Expr]bool
	work        int // parts of derivatives that were computed
	stop        int // with more work, derivatives fail; 0: never
	computed    int // derivatives
	last        int // after this many, searches fail; 0: none
}

// ErrTooComplex means that an expression exceeds the limits of its Space.
var ErrTooComplex = errors.New("the expression is too complex")

// NewSpace returns a Space for at most limit expressions, derivatives included; 0: without a limit.
// Beyond it, expressions match nothing and Full reports true.
func NewSpace(limit int) *Space {
	s := &Space{index: map[string]Expr{}, limit: limit, alive: map[Expr]bool{},
		choices: map[Expr][][]Expr{}}
	s.intern(node{kind: kindNone})
	s.intern(node{kind: kindEmpty, nullable: true})
	s.nodes = append(s.nodes, node{kind: kindNot, nullable: true, kids: []Expr{None}})
	s.index[string(s.encode(&s.nodes[All]))] = All
	s.intern(node{kind: kindSet, set: Set{}.Not()})
	return s
}

// LimitSize replaces the limit of NewSpace.
func (s *Space) LimitSize(limit int) { s.limit = limit }

// Successor returns a Space with the classes of bytes of s, and without its expressions.
func (s *Space) Successor() *Space {
	n := NewSpace(s.limit)
	for i := range s.nodes {
		if s.nodes[i].kind == kindSet {
			n.Set(s.nodes[i].set)
		}
	}
	return n
}

// Import returns expressions of another Space in s.
func (s *Space) Import(from *Space, exprs []Expr) []Expr {
	needed := map[Expr]bool{}
	todo := slices.Clone(exprs)
	for len(todo) > 0 {
		e := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !needed[e] {
			needed[e] = true
			todo = append(todo, from.nodes[e].kids...)
		}
	}
	here := make(map[Expr]Expr, len(needed))
	for _, e := range slices.Sorted(maps.Keys(needed)) { // parts come before what has them
		n := from.nodes[e]
		kids := make([]Expr, len(n.kids))
		for i, kid := range n.kids {
			kids[i] = here[kid]
		}
		if n.kind == kindOr || n.kind == kindAnd {
			slices.Sort(kids)
		}
		n.kids = kids
		here[e] = s.intern(n)
	}
	out := make([]Expr, len(exprs))
	for i, e := range exprs {
		out[i] = here[e]
	}
	return out
}

// nodeBytes is about what an expression takes without its parts and derivatives.
const nodeBytes = 250

// Full reports whether an expression was lost because of a limit.
func (s *Space) Full() bool { return s.full || s.spent }

// Len returns the number of expressions.
func (s *Space) Len() int { return len(s.nodes) }

// Bytes returns about how much memory the expressions and their derivatives take.
func (s *Space) Bytes() int { return s.bytes }

// LimitBytes refuses further expressions once they take more than most bytes. Their number alone
// bounds no memory: one choice may have thousands of parts.
func (s *Space) LimitBytes(most int) { s.most = most }

// Work returns how many parts expressions have been made of so far, a measure of time.
func (s *Space) Work() int { return s.work }

// Nullable reports whether e matches the empty text.
func (s *Space) Nullable(e Expr) bool { return s.nodes[e].nullable }

func (s *Space) encode(n *node) []byte {
	k := append(s.key[:0], byte(n.kind))
	switch n.kind {
	case kindSet:
		for _, w := range n.set {
			k = binary.LittleEndian.AppendUint64(k, w)
		}
	case kindRepeat, kindMultiple:
		k = binary.AppendVarint(k, int64(n.min))
		k = binary.AppendVarint(k, int64(n.max))
	}
	for _, e := range n.kids {
		k = binary.LittleEndian.AppendUint32(k, uint32(e))
	}
	s.key = k
	return k
}

func (s *Space) intern(n node) Expr {
	key := s.encode(&n)
	if e, ok := s.index[string(key)]; ok {
		return e
	}
	if s.limit > 0 && len(s.nodes) >= s.limit || s.most > 0 && s.bytes > s.most {
		s.full = true
		return None
	}
	n.searched = n.kind == kindAnd || n.kind == kindNot
	for _, kid := range n.kids {
		n.searched = n.searched || s.nodes[kid].searched
	}
	e := Expr(len(s.nodes))
	s.nodes = append(s.nodes, n)
	s.index[string(key)] = e
	s.bytes += nodeBytes + len(key) + 4*cap(n.kids)
	return e
}

// Set returns the expression of one byte of set.
func (s *Space) Set(set Set) Expr {
	if set == (Set{}) {
		return None
	}
	n := node{kind: kindSet, set: set}
	if s.classCount > 0 {
		if e, ok := s.index[string(s.encode(&n))]; ok {
			return e
		}
		s.thaw(set)
	}
	return s.intern(n)
}

// Text returns the expression of one text.
func (s *Space) Text(text string) Expr {
	e := Empty
	for i := len(text) - 1; i >= 0; i-- {
		e = s.concat(s.Set(Of(text[i:i+1])), e)
	}
	return e
}

// Concat returns the expression of texts that consist of a text of each part, in order.
func (s *Space) Concat(parts ...Expr) Expr {
	e := Empty
	for _, part := range slices.Backward(parts) {
		e = s.concat(part, e)
	}
	return e
}

func (s *Space) concat(a, b Expr) Expr {
	switch {
	case !s.spend(nil):
		return None
	case a == None || b == None:
		return None
	case a == Empty:
		return b
	case b == Empty:
		return a
	case a == All && b == All:
		return All
	}
	if n := s.nodes[a]; n.kind == kindConcat {
		return s.concat(n.kids[0], s.concat(n.kids[1], b))
	}
	return s.intern(node{kind: kindConcat, kids: []Expr{a, b},
		nullable: s.nodes[a].nullable && s.nodes[b].nullable})
}

// spend counts the work for an expression of parts, and reports whether the limit allows it.
func (s *Space) spend(parts []Expr) bool {
	s.work++
	for _, part := range parts {
		s.work += 1 + len(s.nodes[part].kids)
	}
	return s.mayWork()
}

// mayWork reports whether the limit of work is not reached yet.
func (s *Space) mayWork() bool {
	s.spent = s.spent || s.stop > 0 && s.work > s.stop
	return !s.spent
}

// Or returns the expression of texts of one of the parts.
func (s *Space) Or(parts ...Expr) Expr {
	if !s.spend(parts) {
		return None
	}
	kids, set := make([]Expr, 0, len(parts)), Set{}
	for _, part := range parts {
		switch n := s.nodes[part]; {
		case part == None:
		case part == All:
			return All
		case n.kind == kindSet:
			set = set.Or(n.set)
		case n.kind == kindOr:
			for _, kid := range n.kids {
				if s.nodes[kid].kind == kindSet {
					set = set.Or(s.nodes[kid].set)
				} else {
					kids = append(kids, kid)
				}
			}
		default:
			kids = append(kids, part)
		}
	}
	if set != (Set{}) {
		kids = append(kids, s.Set(set))
	}
	kids = s.sorted(kids)
	if nullable := slices.ContainsFunc(kids, s.Nullable); nullable {
		// The empty text is in another part too.
		if i, ok := slices.BinarySearch(kids, Empty); ok && s.nullables(kids) > 1 {
			kids = slices.Delete(kids, i, i+1)
		}
	}
	switch len(kids) {
	case 0:
		return None
	case 1:
		return kids[0]
	}
	return s.intern(node{kind: kindOr, kids: kids, nullable: s.nullables(kids) > 0})
}

func (s *Space) nullables(kids []Expr) (n int) {
	for _, kid := range kids {
		if s.nodes[kid].nullable {
			n++
		}
	}
	return n
}

// sorted sorts kids and removes duplicates.
func (s *Space) sorted(kids []Expr) []Expr {
	slices.SortFunc(kids, func(a, b Expr) int { return cmp.Compare(a, b) })
	return slices.Compact(kids)
}

// And returns the expression of texts that belong to every part.
func (s *Space) And(parts ...Expr) Expr {
	if !s.spend(parts) {
		return None
	}
	kids, set := make([]Expr, 0, len(parts)), Set{}.Not()
	isSet := false
	for _, part := range parts {
		switch n := s.nodes[part]; {
		case part == None:
			return None
		case part == All:
		case n.kind == kindSet:
			set, isSet = set.And(n.set), true
		case n.kind == kindAnd:
			kids = append(kids, n.kids...)
		default:
			kids = append(kids, part)
		}
	}
	if isSet {
		if set == (Set{}) {
			return None
		}
		kids = append(kids, s.Set(set))
	}
	kids = s.sorted(kids)
	switch {
	case len(kids) == 0:
		return All
	case len(kids) == 1:
		return kids[0]
	case kids[0] == Empty: // it is the smallest number but for None
		if s.nullables(kids) == len(kids) {
			return Empty
		}
		return None
	}
	for _, kid := range kids {
		if n := s.nodes[kid]; n.kind == kindNot {
			if _, ok := slices.BinarySearch(kids, n.kids[0]); ok {
				return None
			}
		}
	}
	return s.intern(node{kind: kindAnd, kids: kids, nullable: s.nullables(kids) == len(kids)})
}

// Not returns the expression of all other texts.
func (s *Space) Not(e Expr) Expr {
	if n := s.nodes[e]; n.kind == kindNot {
		return n.kids[0]
	}
	return s.intern(node{kind: kindNot, kids: []Expr{e}, nullable: !s.nodes[e].nullable})
}

// Optional returns the expression of a text of e or the empty text.
func (s *Space) Optional(e Expr) Expr { return s.Repeat(e, 0, 1) }

// Repeat returns the expression of min to max texts of e, one after the other. The count costs
// nothing by itself: a repetition has a derivative with a count that is one smaller.
func (s *Space) Repeat(e Expr, min, max int) Expr {
	if s.nodes[e].nullable {
		min = 0
	}
	switch {
	case max == 0 || e == Empty, e == None && min == 0:
		return Empty
	case e == None || max != Unlimited && max < min:
		return None
	case min == 1 && max == 1:
		return e
	case e == All || e == Any && min == 0 && max == Unlimited:
		return All
	}
	if n := s.nodes[e]; n.kind == kindRepeat && n.min <= 1 && n.max == Unlimited &&
		max == Unlimited {
		return s.Repeat(n.kids[0], n.min*min, Unlimited)
	}
	return s.intern(node{kind: kindRepeat, kids: []Expr{e}, min: min, max: max,
		nullable: min == 0})
}
