package jinja

import (
	"math"
	"math/big"
)

// Arithmetic with Python's rules: integers do not overflow, / gives a float, // and % round toward
// minus infinity, and a bool counts as 0 or 1.

// maxIntBits bounds integers; no prompt needs 4096-bit numbers.
const maxIntBits = 4096

// number returns v as *big.Int or float64, or nil if it is not a number.
func number(v any) any {
	switch v := v.(type) {
	case bool:
		return big.NewInt(asInt(v))
	case int64:
		return big.NewInt(v)
	case *big.Int, float64:
		return v
	}
	return nil
}

// numbers returns both operands as numbers of one type: float64 if one is a float, int64 if both
// are int64, else *big.Int.
func numbers(a, b any) (x, y any, ok bool) {
	if i, isInt := a.(int64); isInt {
		if j, isInt := b.(int64); isInt {
			return i, j, true
		}
	}
	x, y = number(a), number(b)
	if x == nil || y == nil {
		return nil, nil, false
	}
	m, isInt := x.(*big.Int)
	n, isInt2 := y.(*big.Int)
	switch {
	case isInt && isInt2:
		return m, n, true
	case isInt:
		return bigFloat(m), y, true
	case isInt2:
		return x, bigFloat(n), true
	}
	return x, y, true
}

func bigFloat(n *big.Int) float64 {
	f, _ := new(big.Float).SetInt(n).Float64()
	return f
}

func compareNumbers(x, y any) int {
	switch x := x.(type) {
	case int64:
		y := y.(int64)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	case *big.Int:
		return x.Cmp(y.(*big.Int))
	}
	f, g := x.(float64), y.(float64)
	switch {
	case f < g:
		return -1
	case f == g:
		return 0
	}
	return 1 // greater, or a NaN, which equals nothing
}

// arithmetic applies + - * / // % ** to numbers.
func (r *renderer) arithmetic(op string, a, b any) any {
	x, y, ok := numbers(a, b)
	if !ok {
		for _, v := range []any{a, b} {
			if u, ok := v.(*undefined); ok {
				r.fail("%s", u.why())
			}
		}
		r.fail("unsupported operand types for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	}
	if i, ok := x.(int64); ok {
		if j := y.(int64); small(i) && small(j) {
			switch op {
			case "+":
				return i + j
			case "-":
				return i - j
			case "*":
				return i * j
			}
		}
		x, y = big.NewInt(i), big.NewInt(y.(int64))
	}
	if m, ok := x.(*big.Int); ok {
		return r.integerArithmetic(op, m, y.(*big.Int))
	}
	return r.floatArithmetic(op, x.(float64), y.(float64))
}

// small reports whether the product of n and another small number fits an int64.
func small(n int64) bool { return n > -1<<31 && n < 1<<31 }

func (r *renderer) integerArithmetic(op string, m, n *big.Int) any {
	r.work(bigIntSteps / 8)
	if bits := max(m.BitLen(), n.BitLen()); bits > 64 {
		r.work(bigIntSteps)
	}
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(m, n)
	case "-":
		z.Sub(m, n)
	case "*":
		z.Mul(m, n)
	case "**":
		if n.Sign() < 0 {
			return r.floatArithmetic(op, bigFloat(m), bigFloat(n))
		}
		if !n.IsInt64() || m.BitLen() > 1 && n.Int64() > maxIntBits {
			r.fail("integer too large")
		}
		if m.BitLen()*int(min(n.Int64(), maxIntBits)) > 2*maxIntBits {
			r.fail("integer too large")
		}
		if m.BitLen() <= 1 && n.Sign() > 0 { // for 0, 1 and -1 only the parity matters
			n = new(big.Int).Sub(big.NewInt(2), new(big.Int).And(n, big.NewInt(1)))
		}
		r.work(2 * bigIntSteps)
		z.Exp(m, n, nil)
	default:
		if n.Sign() == 0 {
			r.fail("division by zero")
		}
		if op == "/" {
			r.work(m.BitLen() + n.BitLen())
			f, _ := new(big.Rat).SetFrac(m, n).Float64()
			return f
		}
		rem := new(big.Int)
		z.DivMod(m, n, rem) // Euclidean: the remainder is never negative
		if rem.Sign() != 0 && n.Sign() < 0 {
			z.Sub(z, big.NewInt(1))
			rem.Add(rem, n)
		}
		if op == "%" {
			z = rem
		}
	}
	if z.BitLen() > maxIntBits {
		r.fail("integer too large")
	}
	return intValue(z)
}

func (r *renderer) floatArithmetic(op string, f, g float64) any {
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		return math.Pow(f, g)
	}
	if g == 0 {
		r.fail("division by zero")
	}
	if op == "/" {
		return f / g
	}
	rem := math.Mod(f, g)
	if rem != 0 && (rem < 0) != (g < 0) {
		rem += g
	}
	if op == "%" {
		return rem
	}
	return math.Floor((f - rem) / g)
}
