package regular

// Patterns: the regular expressions of ECMA-262 with the flag u, as JSON Schema uses them. A
// pattern matches a text if it matches anywhere in it.
//
// A pattern is translated from its end to its beginning: each part becomes the expression of all
// texts that consist of the part and what follows it. Then an anchor or a lookahead is an
// intersection with what follows, and is exact wherever it stands. Whether the text begins at a
// place is known or not, so there are two such expressions for each part.

import (
	"fmt"
	"slices"
)

// Pattern is a parsed pattern.
type Pattern struct{ root *part }

type partKind uint8

const (
	partSet    partKind = iota // one character of set
	partSeq                    // kids in order
	partChoice                 // one of kids
	partRepeat                 // kids[0], min to max times
	partStart                  // ^
	partEnd                    // $
	partLook                   // lookahead: kids[0] matches here
	partNever                  // nothing
)

type part struct {
	kind     partKind
	set      []RuneRange // Normal
	kids     []*part
	min, max int
	negative bool // partLook
	looks    bool // has an anchor or a lookahead inside
	nullable bool // matches the empty text, if it has none
	at       int  // offset in the pattern
}

// PatternError says what of a pattern is wrong or not supported, and where.
type PatternError struct {
	Pattern string
	Offset  int // in bytes
	Reason  string
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("pattern %q, offset %d: %s", e.Pattern, e.Offset, e.Reason)
}

// Search returns the expression of all texts in which the pattern matches somewhere. character
// returns the expression of one character of a set; no character's text may begin another's. The
// error is a *PatternError: an unlimited repetition has a lookahead that cannot be resolved.
func (p Pattern) Search(s *Space, character func([]RuneRange) Expr) (e Expr, err error) {
	t := &translator{space: s, character: character, sets: map[*part]Expr{}}
	t.one = character([]RuneRange{{0, maxRune}})
	t.any = s.Repeat(t.one, 0, Unlimited)
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(*PatternError)
			if !ok {
				panic(r)
			}
			e, err = None, failed
		}
	}()
	all := suffix{t.any, true}
	root := p.root
	if !root.looks {
		root = shortest(shortest(root, true), false)
	}
	begin := t.translate(root, suffixes{all, all})
	if begin.first == begin.later {
		return t.anywhere(begin.first.expr), nil
	}
	later := s.Concat(s.Repeat(t.one, 1, Unlimited), begin.later.expr)
	return s.Or(begin.first.expr, later), nil
}

// shortest returns a part that may match less at its beginning or end, where any text may stand:
// .* matches nothing there, and a+ a single a.
func shortest(p *part, atBeginning bool) *part {
	out := *p
	switch p.kind {
	case partRepeat:
		out.max = p.min
	case partSeq:
		out.kids = slices.Clone(p.kids)
		if n := len(p.kids); n > 0 {
			i := n - 1
			if atBeginning {
				i = 0
			}
			out.kids[i] = shortest(p.kids[i], atBeginning)
		}
	case partChoice:
		out.kids = make([]*part, len(p.kids))
		for i, kid := range p.kids {
			out.kids[i] = shortest(kid, atBeginning)
		}
	}
	return &out
}

// Whole returns the expression of the texts that the pattern matches from their beginning to their
// end. character and the error are those of Search.
func (p Pattern) Whole(s *Space, character func([]RuneRange) Expr) (Expr, error) {
	if p.root.looks {
		kids := []*part{{kind: partStart, looks: true}, p.root, {kind: partEnd, looks: true}}
		return Pattern{&part{kind: partSeq, kids: kids, looks: true}}.Search(s, character)
	}
	t := &translator{space: s, character: character, sets: map[*part]Expr{}}
	return t.plain(p.root), nil
}

// suffix is a set of texts that end where the text ends. empty reports whether the empty text is
// one of them.
type suffix struct {
	expr  Expr
	empty bool
}

// suffixes are those that begin where the text begins, and those that begin later.
type suffixes struct{ first, later suffix }

type translator struct {
	space     *Space
	character func([]RuneRange) Expr
	sets      map[*part]Expr
	one, any  Expr
}

// anywhere returns the expression of texts that end with one of e.
func (t *translator) anywhere(e Expr) Expr {
	if e == t.any {
		return e
	}
	return t.space.Concat(t.any, e)
}

// plain returns the expression of a part without anchors and lookaheads.
func (t *translator) plain(p *part) Expr {
	switch p.kind {
	case partSet:
		e, ok := t.sets[p]
		if !ok {
			e = t.character(p.set)
			t.sets[p] = e
		}
		return e
	case partSeq, partChoice:
		kids := make([]Expr, len(p.kids))
		for i, kid := range p.kids {
			kids[i] = t.plain(kid)
		}
		if p.kind == partSeq {
			return t.space.Concat(kids...)
		}
		return t.space.Or(kids...)
	case partRepeat:
		return t.space.Repeat(t.plain(p.kids[0]), p.min, p.max)
	}
	return None
}

// translate returns the suffixes that consist of the part and one of rest.
func (t *translator) translate(p *part, rest suffixes) suffixes {
	if !p.looks {
		return t.before(p, rest)
	}
	switch p.kind {
	case partSeq:
		for _, kid := range slices.Backward(p.kids) {
			rest = t.translate(kid, rest)
		}
		return rest
	case partChoice:
		out := suffixes{}
		for _, kid := range p.kids {
			k := t.translate(kid, rest)
			out = suffixes{t.or(out.first, k.first), t.or(out.later, k.later)}
		}
		return out
	case partRepeat:
		return t.repeated(p, rest)
	case partStart:
		return suffixes{first: rest.first}
	case partEnd:
		return suffixes{t.atEnd(rest.first), t.atEnd(rest.later)}
	case partLook:
		all := suffix{t.any, true}
		inner := t.translate(p.kids[0], suffixes{all, all})
		return suffixes{t.look(p, inner.first, rest.first), t.look(p, inner.later, rest.later)}
	}
	return suffixes{}
}

// before puts a part without anchors and lookaheads before rest.
func (t *translator) before(p *part, rest suffixes) suffixes {
	e := t.plain(p)
	later := suffix{t.space.Concat(e, rest.later.expr), p.nullable && rest.later.empty}
	if rest.first == rest.later || !p.nullable {
		return suffixes{later, later}
	}
	some := t.space.Concat(t.space.And(e, t.space.Repeat(t.one, 1, Unlimited)), rest.later.expr)
	return suffixes{t.or(rest.first, suffix{some, false}), later}
}

func (t *translator) or(a, b suffix) suffix {
	return suffix{t.space.Or(a.expr, b.expr), a.empty || b.empty}
}

func (t *translator) atEnd(s suffix) suffix {
	if s.empty {
		return suffix{Empty, true}
	}
	return suffix{}
}

func (t *translator) look(p *part, inner, rest suffix) suffix {
	if p.negative {
		inner = suffix{t.space.Not(inner.expr), !inner.empty}
	}
	return suffix{t.space.And(inner.expr, rest.expr), inner.empty && rest.empty}
}

// maxUnrolled bounds how often a part with a lookahead or an anchor may be repeated.
const maxUnrolled = 32

// repeated translates the repetition of a part that has a lookahead or an anchor.
func (t *translator) repeated(p *part, rest suffixes) suffixes {
	kid := p.kids[0]
	optional := p.max - p.min
	if p.max == Unlimited {
		rest = t.unlimited(p, rest)
		optional = 0
	}
	if p.min+optional > maxUnrolled {
		panic(&PatternError{Offset: p.at,
			Reason: "a lookahead or an anchor is in a repetition with a large count"})
	}
	for range optional {
		more := t.translate(kid, rest)
		rest = suffixes{t.or(rest.first, more.first), t.or(rest.later, more.later)}
	}
	for range p.min {
		rest = t.translate(kid, rest)
	}
	return rest
}

// unlimited translates (?:(?=a)b)*, where b is one character, in the two cases in which there is an
// expression for it: if anything may follow, it may be repeated no time at all, and if nothing may
// follow, no suffix may be one of those that the lookahead or b does not allow.
func (t *translator) unlimited(p *part, rest suffixes) suffixes {
	all := suffix{t.any, true}
	if rest == (suffixes{all, all}) {
		return rest
	}
	nothing := suffix{Empty, true}
	if rest != (suffixes{nothing, nothing}) || !isGuardedCharacter(p.kids[0]) {
		panic(&PatternError{Offset: p.at,
			Reason: "a lookahead or an anchor is in an unlimited repetition"})
	}
	allowed := t.translate(p.kids[0], suffixes{all, all})
	if allowed.first != allowed.later {
		panic(&PatternError{Offset: p.at, Reason: "an anchor is in an unlimited repetition"})
	}
	some := t.space.Repeat(t.one, 1, Unlimited)
	wrong := t.space.And(some, t.space.Not(allowed.first.expr))
	e := suffix{t.space.And(t.any, t.space.Not(t.space.Concat(t.any, wrong))), true}
	return suffixes{e, e}
}

// isGuardedCharacter reports whether a part is one character after lookaheads.
func isGuardedCharacter(p *part) bool {
	for p.kind == partSeq && len(p.kids) == 1 {
		p = p.kids[0]
	}
	if p.kind != partSeq || len(p.kids) == 0 {
		return false
	}
	last := len(p.kids) - 1
	for i, kid := range p.kids {
		for kid.kind == partSeq && len(kid.kids) == 1 {
			kid = kid.kids[0]
		}
		if i < last && kid.kind != partLook || i == last && kid.kind != partSet {
			return false
		}
	}
	return true
}
