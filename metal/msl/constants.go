package msl

import (
	"fmt"
	"math"
)

// Bits returns v as the four bytes of the function constant's value. It returns an error unless v
// has the Go type of the constant: bool, int32, uint32 or float32.
func (c *Constant) Bits(v any) (uint32, error) {
	switch v := v.(type) {
	case bool:
		if c.Type == "bool" {
			if v {
				return 1, nil
			}
			return 0, nil
		}
	case int32:
		if c.Type == "int" {
			return uint32(v), nil
		}
	case uint32:
		if c.Type == "uint" {
			return v, nil
		}
	case float32:
		if c.Type == "float" {
			return math.Float32bits(v), nil
		}
	}
	return 0, fmt.Errorf("function constant %s: got %T, expected Go's type for %s", c.Name, v,
		c.Type)
}
