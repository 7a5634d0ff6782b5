package regular

// Derivatives, and whether an expression matches anything.

const notYet Expr = -1

// Class returns the number of the class of a byte. Bytes of one class are in the same sets of the
// Space, so expressions have the same derivatives by them.
func (s *Space) Class(b byte) uint8 {
	s.freeze()
	return s.classes[b]
}

// Classes returns the class of every byte, and the number of classes.
func (s *Space) Classes() (*[256]uint8, int) {
	s.freeze()
	return &s.classes, s.classCount
}

// freeze computes the classes of bytes. The sets of derivatives are unions of classes.
func (s *Space) freeze() {
	if s.classCount > 0 {
		return
	}
	classes, count := [256]int{}, 1
	for i := range s.nodes {
		if s.nodes[i].kind != kindSet || count == 256 {
			continue
		}
		inside := map[int]int{} // the new class of the bytes of a class that are in the set
		size := [256]int{}
		for b := range 256 {
			size[classes[b]]++
		}
		for b := range 256 {
			if s.nodes[i].set.has(byte(b)) {
				size[classes[b]]--
			}
		}
		for b := range 256 {
			old := classes[b]
			if !s.nodes[i].set.has(byte(b)) || size[old] == 0 {
				continue
			}
			if _, ok := inside[old]; !ok {
				inside[old] = count
				count++
			}
			classes[b] = inside[old]
		}
	}
	s.classCount = count
	for b := 255; b >= 0; b-- {
		s.classes[b] = uint8(classes[b])
		s.classByte[classes[b]] = byte(b)
	}
}

// thaw forgets the classes and the derivatives if a new set distinguishes bytes of one class.
func (s *Space) thaw(set Set) {
	inside, outside := [256]bool{}, [256]bool{}
	for b := range 256 {
		class := s.classes[b]
		if set.has(byte(b)) {
			inside[class] = true
		} else {
			outside[class] = true
		}
	}
	for class := range s.classCount {
		if inside[class] && outside[class] {
			for _, row := range s.derivatives {
				s.bytes -= 4 * len(row)
			}
			s.classCount, s.derivatives, s.choices = 0, nil, map[Expr][][]Expr{}
			return
		}
	}
}

// Derivative returns the expression of what may follow byte b in a text of e.
func (s *Space) Derivative(e Expr, b byte) Expr { return s.DerivativeByClass(e, s.Class(b)) }

// DerivativeByClass is Derivative for a class of bytes.
func (s *Space) DerivativeByClass(e Expr, class uint8) Expr {
	for len(s.derivatives) <= int(e) {
		s.derivatives = append(s.derivatives, nil)
	}
	row := s.derivatives[e]
	if row == nil {
		row = make([]Expr, s.classCount)
		for i := range row {
			row[i] = notYet
		}
		s.derivatives[e] = row
		s.bytes += 4 * len(row)
	}
	if row[class] == notYet {
		if !s.mayWork() {
			return None
		}
		s.computed++
		d := s.derive(e, class) // s.derivatives may move, row does not
		if s.Full() {
			return None // d may lack parts
		}
		row[class] = d
	}
	return row[class]
}

func (s *Space) derive(e Expr, class uint8) Expr {
	switch n := s.nodes[e]; n.kind {
	case kindSet:
		if n.set.has(s.classByte[class]) {
			return Empty
		}
		return None
	case kindConcat:
		d := s.concat(s.DerivativeByClass(n.kids[0], class), n.kids[1])
		if s.nodes[n.kids[0]].nullable {
			d = s.Or(d, s.DerivativeByClass(n.kids[1], class))
		}
		return d
	case kindOr:
		return s.Or(s.each(s.beginning(e, class), class)...)
	case kindAnd:
		return s.And(s.each(n.kids, class)...)
	case kindNot:
		return s.Not(s.DerivativeByClass(n.kids[0], class))
	case kindRepeat:
		rest := s.Repeat(n.kids[0], max(n.min-1, 0), max(n.max-1, Unlimited))
		return s.concat(s.DerivativeByClass(n.kids[0], class), rest)
	case kindMultiple:
		return s.deriveMultiple(n, s.classByte[class])
	}
	return None
}

// manyKids is the size of an Or whose parts are listed by the bytes with which they begin. The
// letters of all scripts are an Or of 700 parts, and a byte begins few of them.
const manyKids = 16

// beginning returns the parts of an Or that may begin with a byte of a class, and perhaps others.
func (s *Space) beginning(e Expr, class uint8) []Expr {
	kids := s.nodes[e].kids
	if len(kids) < manyKids {
		return kids
	}
	lists, ok := s.choices[e]
	if !ok {
		lists = s.byBeginning(kids)
		s.choices[e] = lists
	}
	if lists == nil {
		return kids
	}
	return lists[class]
}

// byBeginning returns the parts that may begin with a byte of each class; nil: some of them begin
// with no set of bytes, so that it is not worth it.
func (s *Space) byBeginning(kids []Expr) [][]Expr {
	lists := make([][]Expr, s.classCount)
	for _, kid := range kids {
		first := s.nodes[kid]
		if first.kind == kindConcat {
			first = s.nodes[first.kids[0]]
		}
		if first.kind != kindSet {
			return nil
		}
		for class := range lists {
			if first.set.has(s.classByte[class]) {
				lists[class] = append(lists[class], kid)
			}
		}
	}
	s.work += len(lists)
	s.bytes += 24 * len(lists)
	return lists
}

func (s *Space) each(kids []Expr, class uint8) []Expr {
	d := make([]Expr, len(kids))
	for i, kid := range kids {
		d[i] = s.DerivativeByClass(kid, class)
	}
	return d
}

// Matches reports whether text belongs to e.
func (s *Space) Matches(e Expr, text string) bool {
	for i := range len(text) {
		if e = s.Derivative(e, text[i]); e == None {
			return false
		}
	}
	return s.nodes[e].nullable
}

// maxSearch is how many derivatives a search for a text may need.
const maxSearch = 50_000

// LimitWork allows so much further Work for derivatives, after which the Space is full until the
// next LimitWork. 0 removes the limit.
func (s *Space) LimitWork(parts int) {
	s.stop, s.spent = 0, false
	if parts > 0 {
		s.stop = s.work + parts
	}
}

// LimitSearches makes searches end in ErrTooComplex after so many further derivatives in all. 0
// removes the limit; that of a single search remains.
func (s *Space) LimitSearches(derivatives int) {
	s.last = 0
	if derivatives > 0 {
		s.last = s.computed + derivatives
	}
}

// IsNone reports whether e matches nothing. Of parts with And or Not, it searches the derivatives
// for one with the empty text. The error is ErrTooComplex.
func (s *Space) IsNone(e Expr) (bool, error) {
	for {
		n := s.nodes[e]
		switch {
		case e == None:
			return !s.Full(), s.check()
		case n.nullable || !n.searched:
			return false, nil
		}
		switch n.kind {
		case kindConcat:
			if none, err := s.IsNone(n.kids[0]); none || err != nil {
				return none, err
			}
			e = n.kids[1]
		case kindRepeat:
			e = n.kids[0]
		case kindOr:
			for _, kid := range n.kids {
				if none, err := s.IsNone(kid); !none || err != nil {
					return false, err
				}
			}
			return true, nil
		default:
			if alive, ok := s.alive[e]; ok {
				return !alive, nil
			}
			return s.search(e)
		}
	}
}

func (s *Space) check() error {
	if s.Full() {
		return ErrTooComplex
	}
	return nil
}

// search visits the derivatives of e, depth first, since most texts end where they lead straight
// on.
func (s *Space) search(e Expr) (none bool, err error) {
	s.freeze()
	type visit struct {
		at    Expr
		class int // the next
	}
	seen := map[Expr]bool{e: true}
	path := []visit{{e, 0}}
	for steps := 0; len(path) > 0; {
		v := &path[len(path)-1]
		if v.class == s.classCount {
			path = path[:len(path)-1]
			continue
		}
		d := s.DerivativeByClass(v.at, uint8(v.class))
		v.class++
		if steps++; s.Full() || steps > maxSearch || s.last > 0 && s.computed > s.last {
			return false, ErrTooComplex
		}
		if d == None || seen[d] {
			continue
		}
		seen[d] = true
		alive, known := s.alive[d]
		if n := s.nodes[d]; n.nullable || !n.searched || known && alive {
			for _, v := range path { // all on the way lead to a text
				s.alive[v.at] = true
			}
			return false, nil
		}
		if !known {
			path = append(path, visit{d, 0})
		}
	}
	for at := range seen {
		s.alive[at] = false
	}
	return true, nil
}
