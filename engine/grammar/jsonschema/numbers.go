package jsonschema

// Numbers, as regular expressions over decimals without an exponent. If a set has one text of a
// value, it has all: 1, 1.0 and 1.00. So complements are exact. Which of them are generated is
// decided at the end (style): an integer is written without a fraction, a constant in one way. Only
// a number without bounds may have an exponent.

import (
	"math/big"
	"strings"

	"headroom/engine/grammar/regular"
)

// style is how numbers are written. Each style has a text for all values of the styles after it.
type style uint8

const (
	anyNumber style = iota // with or without zeros at the end
	canonical              // without zeros at the end
	integers               // without a fraction; all values are integers
)

// numbers is a set of numbers; the zero value is empty.
type numbers struct {
	expr  regular.Expr
	style style
}

type numerals struct {
	digit, digits regular.Expr // one; any number of them
	natural       regular.Expr
	fraction      regular.Expr // nothing, or a point and digits
	zeros         regular.Expr // nothing, or a point and zeros
	minus         regular.Expr
	exponent      regular.Expr // up to 308
	allNumbers    regular.Expr
	notNegative   regular.Expr
	fromZero      regular.Expr // notNegative and -0
	integers      regular.Expr
	canonical     regular.Expr // the one way to write each number
	wholes        regular.Expr // the one way to write each integer
}

func newNumerals(s *regular.Space) numerals {
	n := numerals{minus: s.Text("-")}
	n.digit = s.Set(regular.Range('0', '9'))
	n.digits = s.Repeat(n.digit, 0, regular.Unlimited)
	first := s.Set(regular.Range('1', '9'))
	n.natural = s.Or(s.Text("0"), s.Concat(first, n.digits))
	point := s.Text(".")
	n.fraction = s.Optional(s.Concat(point, n.digit, n.digits))
	zero := s.Repeat(s.Text("0"), 0, regular.Unlimited)
	n.zeros = s.Optional(s.Concat(point, s.Text("0"), zero))
	// Up to 308, the largest that a 64-bit float has.
	range3 := s.Or(s.Concat(s.Set(regular.Of("12")), n.digit, n.digit),
		s.Concat(s.Text("30"), s.Set(regular.Range('0', '8'))))
	n.exponent = s.Concat(s.Set(regular.Of("eE")), s.Optional(s.Set(regular.Of("+-"))),
		s.Or(s.Repeat(n.digit, 1, 2), range3))
	n.notNegative = s.Concat(n.natural, n.fraction)
	n.fromZero = s.Or(n.notNegative, s.Concat(n.minus, s.Text("0"), n.zeros))
	n.allNumbers = s.Concat(s.Optional(n.minus), n.notNegative)
	n.integers = s.Concat(s.Optional(n.minus), n.natural, n.zeros)
	positive := s.Concat(first, n.digits)
	n.wholes = s.Or(s.Text("0"), s.Concat(s.Optional(n.minus), positive))
	n.canonical = s.Or(n.wholes,
		s.Concat(s.Optional(n.minus), n.natural, point, n.digits, first))
	return n
}

func (c *compiler) intersectNumbers(a, b numbers) numbers {
	n := numbers{c.bothNumbers(a.expr, b.expr), max(a.style, b.style)}
	if n.expr == regular.None {
		return numbers{}
	}
	return n
}

// bothNumbers returns the numbers of both expressions; see bothTexts.
func (c *compiler) bothNumbers(a, b regular.Expr) regular.Expr {
	switch {
	case a == c.allNumbers:
		return b
	case b == c.allNumbers:
		return a
	}
	return c.space.And(a, b)
}

func (c *compiler) uniteNumbers(a, b numbers) numbers {
	switch {
	case a.expr == regular.None:
		return b
	case b.expr == regular.None:
		return a
	}
	return numbers{c.space.Or(a.expr, b.expr), min(a.style, b.style)}
}

func (c *compiler) subtractNumbers(a, b numbers) numbers {
	switch b.expr {
	case regular.None:
		return a
	case c.allNumbers:
		return numbers{}
	}
	return numbers{c.space.And(a.expr, c.space.Not(b.expr)), a.style}
}

func (c *compiler) nonEmptyNumbers(n numbers) numbers {
	if c.nonEmpty(n.expr) == regular.None {
		return numbers{}
	}
	return n
}

// numberTexts returns the texts of a set that are generated.
func (c *compiler) numberTexts(n numbers) regular.Expr {
	switch n.style {
	case integers:
		if n.expr == c.integers {
			return c.wholes
		}
		return c.space.And(n.expr, c.wholes)
	case canonical:
		return c.space.And(n.expr, c.numerals.canonical)
	}
	switch n.expr {
	case c.allNumbers:
		return c.space.Concat(n.expr, c.space.Optional(c.exponent))
	case c.fromZero:
		return c.space.Concat(c.notNegative, c.space.Optional(c.exponent))
	}
	return n.expr
}

// decimal returns the digits of a number in a schema.
func (c *compiler) decimal(v *value) (negative bool, whole, fraction string) {
	r := v.rational()
	if r == nil {
		invalid(c.at, "a number has too many digits: "+v.text[:min(len(v.text), 40)])
	}
	digits, _ := decimal(r)
	digits, negative = strings.CutPrefix(digits, "-")
	whole, fraction, _ = strings.Cut(digits, ".")
	c.spend(2 + len(digits))
	return negative, whole, fraction
}

// numberText returns the canonical text of a number.
func (c *compiler) numberText(v *value) string {
	negative, whole, fraction := c.decimal(v)
	out := whole
	if negative {
		out = "-" + out
	}
	if fraction != "" {
		out += "." + fraction
	}
	return out
}

// numberValue returns all texts of one number.
func (c *compiler) numberValue(v *value) regular.Expr {
	s, number := c.space, c.numberText(v)
	switch {
	case number == "0":
		return s.Concat(s.Optional(c.minus), s.Text("0"), c.zeros)
	case strings.Contains(number, "."):
		return s.Concat(s.Text(number), s.Repeat(s.Text("0"), 0, regular.Unlimited))
	}
	return s.Concat(s.Text(number), c.zeros)
}

// numberKeywords returns the numbers that the keywords of a schema allow.
func (c *compiler) numberKeywords(v *value) regular.Expr {
	e := c.allNumbers
	low, high := v.get("minimum"), v.get("maximum")
	lowStrict, highStrict := false, false
	// In draft 4 these are flags of minimum and maximum.
	if x := v.get("exclusiveMinimum"); x != nil && x.kind == boolean {
		lowStrict = x.is
	} else if x != nil {
		e = c.bothNumbers(e, c.bounded(v, "exclusiveMinimum", x, true, true))
	}
	if x := v.get("exclusiveMaximum"); x != nil && x.kind == boolean {
		highStrict = x.is
	} else if x != nil {
		e = c.bothNumbers(e, c.bounded(v, "exclusiveMaximum", x, false, true))
	}
	if low != nil {
		e = c.bothNumbers(e, c.bounded(v, "minimum", low, true, lowStrict))
	}
	if high != nil {
		e = c.bothNumbers(e, c.bounded(v, "maximum", high, false, highStrict))
	}
	if m := v.get("multipleOf"); m != nil {
		e = c.bothNumbers(e, c.multiples(v, m))
	}
	return e
}

// bounded returns the numbers at and above a bound, or at and below it.
func (c *compiler) bounded(v *value, keyword string, bound *value, above, strict bool,
) regular.Expr {
	if bound.kind != number {
		invalid(v, keyword+" is not a number")
	}
	s := c.space
	negative, whole, fraction := c.decimal(bound)
	isZero := whole == "0" && fraction == ""
	zero := s.Concat(s.Optional(c.minus), s.Text("0"), c.zeros)
	positive := c.atLeast("0", "", true)
	switch {
	case above && isZero && strict:
		return positive
	case above && isZero:
		return c.fromZero
	case above && negative:
		return s.Or(c.fromZero, s.Concat(c.minus, c.atMost(whole, fraction, strict)))
	case above:
		return c.atLeast(whole, fraction, strict)
	case isZero && strict:
		return s.Concat(c.minus, positive)
	case isZero:
		return s.Or(s.Concat(c.minus, positive), zero)
	case negative:
		return s.Concat(c.minus, c.atLeast(whole, fraction, strict))
	}
	return s.Or(s.Concat(c.minus, c.notNegative), c.atMost(whole, fraction, strict))
}

// digitsBetween returns the expression of one digit.
func (c *compiler) digitsBetween(lo, hi byte) regular.Expr {
	if lo > hi {
		return regular.None
	}
	return c.space.Set(regular.Range(lo, hi))
}

// atLeast returns the numbers without a sign that are at least, or more than, a positive bound.
func (c *compiler) atLeast(whole, fraction string, strict bool) regular.Expr {
	s := c.space
	longer := s.Concat(c.digitsBetween('1', '9'),
		s.Repeat(c.digit, len(whole), regular.Unlimited))
	greater := regular.None
	for i := len(whole) - 1; i >= 0; i-- {
		greater = s.Or(s.Concat(s.Text(whole[i:i+1]), greater),
			s.Concat(c.digitsBetween(whole[i]+1, '9'),
				s.Repeat(c.digit, len(whole)-1-i, len(whole)-1-i)))
	}
	return s.Or(s.Concat(s.Or(longer, greater), c.fraction),
		s.Concat(s.Text(whole), c.fractionAtLeast(fraction, strict)))
}

// fractionAtLeast returns the fractions, with their point, that are at least f or more.
func (c *compiler) fractionAtLeast(f string, strict bool) regular.Expr {
	s := c.space
	rest := c.digits
	if strict {
		rest = s.Concat(c.digits, c.digitsBetween('1', '9'), c.digits)
	}
	if f == "" && !strict {
		return c.fraction
	}
	for i := len(f) - 1; i >= 0; i-- {
		rest = s.Or(s.Concat(c.digitsBetween(f[i]+1, '9'), c.digits),
			s.Concat(s.Text(f[i:i+1]), rest))
	}
	return s.Concat(s.Text("."), rest)
}

// atMost returns the numbers without a sign that are at most, or less than, a bound above zero.
func (c *compiler) atMost(whole, fraction string, strict bool) regular.Expr {
	s := c.space
	less := regular.None
	for i := len(whole) - 1; i >= 0; i-- {
		lowest := byte('0')
		if i == 0 && len(whole) > 1 {
			lowest = '1'
		}
		below := regular.None
		if whole[i] > lowest {
			below = s.Concat(c.digitsBetween(lowest, whole[i]-1),
				s.Repeat(c.digit, len(whole)-1-i, len(whole)-1-i))
		}
		less = s.Or(s.Concat(s.Text(whole[i:i+1]), less), below)
	}
	if len(whole) > 1 {
		less = s.Or(less, s.Text("0"),
			s.Concat(c.digitsBetween('1', '9'), s.Repeat(c.digit, 0, len(whole)-2)))
	}
	return s.Or(s.Concat(less, c.fraction),
		s.Concat(s.Text(whole), c.fractionAtMost(fraction, strict)))
}

// fractionAtMost returns the fractions, with their point, that are at most f or less.
func (c *compiler) fractionAtMost(f string, strict bool) regular.Expr {
	s := c.space
	switch {
	case f == "" && strict:
		return regular.None
	case f == "":
		return c.zeros
	}
	rest := regular.None // after all digits of f
	if !strict {
		rest = s.Repeat(s.Text("0"), 0, regular.Unlimited)
	}
	for i := len(f) - 1; i >= 0; i-- {
		below := regular.None
		if f[i] > '0' {
			below = s.Concat(c.digitsBetween('0', f[i]-1), c.digits)
		}
		rest = s.Or(below, s.Concat(s.Text(f[i:i+1]), rest))
		if i > 0 {
			rest = s.Or(rest, regular.Empty) // zeros, and f has more than that
		}
	}
	return s.Or(regular.Empty, s.Concat(s.Text("."), rest))
}

// multiples returns the multiples of a number.
func (c *compiler) multiples(v, m *value) regular.Expr {
	r := m.rational()
	if m.kind != number || r == nil || r.Sign() <= 0 {
		invalid(v, "multipleOf is not a number above 0")
	}
	const maxPlaces = 15
	digits, _ := decimal(r)
	_, fraction, _ := strings.Cut(digits, ".")
	places := len(fraction)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	divisor := new(big.Int).Quo(new(big.Int).Mul(r.Num(), power), r.Denom())
	if places > maxPlaces || divisor.Cmp(big.NewInt(regular.MaxDivisor)) > 0 {
		unsupported(v, "multipleOf", m.text+" has too many digits")
	}
	s := c.space
	if divisor.Cmp(big.NewInt(1)) == 0 && places == 0 {
		return c.integers
	}
	return s.Concat(s.Optional(c.minus),
		s.And(c.notNegative, s.Multiples(int(divisor.Int64()), places)))
}
