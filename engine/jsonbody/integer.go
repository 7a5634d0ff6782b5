package jsonbody

// Integers. Languages that know floats alone write 20 as 20.0 or 2e1, and seeds beyond 64 bits.

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
)

// maxDigits is the longest integer that is read. The largest float has 309 digits.
const maxDigits = 400

// IsNumber reports whether a JSON value is a number.
func IsNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// Integer returns the value of a JSON number. It returns false for one that has a fraction, or more
// than maxDigits digits.
func Integer(raw []byte) (*big.Int, bool) {
	mantissa, exponent := raw, 0
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		var err error
		mantissa = raw[:i]
		if exponent, err = strconv.Atoi(string(raw[i+1:])); err != nil {
			return nil, false
		}
	}
	digits, fraction, _ := bytes.Cut(mantissa, []byte("."))
	fraction = bytes.TrimRight(fraction, "0")
	if len(digits)+len(fraction) > maxDigits || exponent > maxDigits || exponent < -maxDigits {
		return nil, false
	}
	text := string(digits) + string(fraction)
	zeros := exponent - len(fraction)
	if zeros > 0 {
		text += string(bytes.Repeat([]byte("0"), zeros))
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || zeros >= 0 {
		return n, ok
	}
	n, rest := n.QuoRem(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-zeros)), nil),
		new(big.Int))
	return n, rest.Sign() == 0
}

// saturated returns n, or the nearest integer of 64 bits.
func saturated(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}
