package jsonbody

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// OneOf reports whether a value is null or one of list, which has JSON values without white space,
// separated by spaces. Numbers may have different spellings.
func OneOf(value json.RawMessage, list string) bool {
	const long = 64 // no value of a list is that long
	var compact bytes.Buffer
	if len(value) < long && json.Compact(&compact, value) == nil {
		value = compact.Bytes()
	}
	return IsNull(value) || slices.ContainsFunc(bytes.Fields([]byte(list)),
		func(other []byte) bool { return sameValue(value, other) })
}

// sameValue compares two JSON values without white space.
func sameValue(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := strconv.ParseFloat(string(a), 64)
	y, otherErr := strconv.ParseFloat(string(b), 64)
	return err == nil && otherErr == nil && x == y
}
