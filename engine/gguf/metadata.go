package gguf

// The metadata: keys with values of 13 types.

import (
	"fmt"
	"math"
	"slices"
)

// Metadata has the values by key, such as "general.architecture".
type Metadata map[string]Value

// Value is the value of a key: a text, a number, or an array of either. Numbers of all types, and
// booleans, are float64. Integers beyond 2^53 lose their last bits; no known key has one.
type Value struct {
	Text    string
	Number  float64
	Texts   []string
	Numbers []float64
}

// Text returns the text of a key; "": it has none.
func (m Metadata) Text(key string) string { return m[key].Text }

// Number returns the number of a key. ok is false if the key is not there or has no number.
func (m Metadata) Number(key string) (n float64, ok bool) {
	v, ok := m[key]
	return v.Number, ok && v.Text == "" && v.Texts == nil && v.Numbers == nil
}

// Flag returns the boolean of a key, or otherwise if it is not there.
func (m Metadata) Flag(key string, otherwise bool) bool {
	if n, ok := m.Number(key); ok {
		return n != 0
	}
	return otherwise
}

// The types of values that are not integers.
const (
	typeFloat32 = 6
	typeBool    = 7
	typeText    = 8
	typeArray   = 9
	typeFloat64 = 12
)

// numberBytes has the sizes of the types of numbers, and 0 for others.
var numberBytes = [13]int{1, 1, 2, 2, 4, 4, typeFloat32: 4, typeBool: 1, 10: 8, 11: 8,
	typeFloat64: 8}

// value reads the type of a value and the value. Arrays are kept if keep is true.
func (r *reader) value(keep bool) (out Value, err error) {
	kind, err := r.number(4)
	if err != nil {
		return out, err
	}
	switch kind {
	case typeText:
		out.Text, err = r.text(maxTextBytes)
		return out, err
	case typeArray:
		return r.array(keep)
	}
	out.Number, err = r.numberOf(kind)
	return out, err
}

func (r *reader) array(keep bool) (out Value, err error) {
	kind, err := r.number(4)
	if err != nil {
		return out, err
	}
	limit := uint64(maxHeaderBytes)
	if keep {
		limit = maxArray - r.kept
	}
	count, err := r.numberTo(limit, "values in an array")
	if err != nil {
		return out, err
	}
	if keep {
		r.kept += count
	}
	for range count {
		if kind == typeText {
			text, err := r.text(maxTextBytes)
			if err != nil {
				return out, err
			}
			if keep {
				out.Texts = append(out.Texts, text)
			}
			continue
		}
		number, err := r.numberOf(kind)
		if err != nil {
			return out, err
		}
		if keep {
			out.Numbers = append(out.Numbers, number)
		}
	}
	if kind == typeText && out.Texts == nil {
		out.Texts = []string{}
	} else if kind != typeText && out.Numbers == nil {
		out.Numbers = []float64{}
	}
	out.Texts, out.Numbers = slices.Clip(out.Texts), slices.Clip(out.Numbers)
	return out, nil
}

func (r *reader) numberOf(kind uint64) (float64, error) {
	if kind >= uint64(len(numberBytes)) || numberBytes[kind] == 0 {
		return 0, fmt.Errorf("a value has the type %d, expected a number", kind)
	}
	n, err := r.number(numberBytes[kind])
	switch kind {
	case typeFloat32:
		return float64(math.Float32frombits(uint32(n))), err
	case typeFloat64:
		return math.Float64frombits(n), err
	case 1, 3, 5, 11: // signed
		shift := 64 - 8*numberBytes[kind]
		return float64(int64(n<<shift) >> shift), err
	}
	return float64(n), err
}
