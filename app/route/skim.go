package route

// Finding values in JSON without reading all of it. It is many times as fast as encoding/json,
// because it jumps from quote to quote, and it checks nothing: whoever answers the request does.
// What is no JSON yields fewer values, or wrong ones, and never a panic.

import (
	"bytes"
	"encoding/json"
)

// fields calls do with each field of a JSON object. ok is false if data is none.
func fields(data []byte, do func(name string, value []byte)) (ok bool) {
	at := space(data, 0)
	if at >= len(data) || data[at] != '{' {
		return false
	}
	for at++; ; at++ {
		at = space(data, at)
		if at < len(data) && data[at] == '}' {
			return true
		}
		end := skip(data, at)
		if end <= at || data[at] != '"' {
			return false
		}
		name := text(data[at:end])
		if at = space(data, end); at >= len(data) || data[at] != ':' {
			return false
		}
		at = space(data, at+1)
		if end = skip(data, at); end <= at {
			return false
		}
		do(name, data[at:end])
		if at = space(data, end); at >= len(data) {
			return false
		}
		if data[at] == '}' {
			return true
		}
		if data[at] != ',' {
			return false
		}
	}
}

// elements calls do with each element of a JSON array, until it returns false. ok is false if data
// is none.
func elements(data []byte, do func(value []byte) bool) (ok bool) {
	at := space(data, 0)
	if at >= len(data) || data[at] != '[' {
		return false
	}
	for at++; ; at++ {
		at = space(data, at)
		if at < len(data) && data[at] == ']' {
			return true
		}
		end := skip(data, at)
		if end <= at {
			return false
		}
		if !do(data[at:end]) {
			return true
		}
		if at = space(data, end); at >= len(data) {
			return false
		}
		if data[at] == ']' {
			return true
		}
		if data[at] != ',' {
			return false
		}
	}
}

// space returns the index of the next byte that is no space.
func space(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\n' || data[at] == '\r' ||
		data[at] == '\t') {
		at++
	}
	return at
}

// skip returns the index after the value at a place; at itself, or less, if there is none.
func skip(data []byte, at int) int {
	depth := 0
	for start := at; at < len(data); {
		switch data[at] {
		case '"':
			if at = skipString(data, at); at < 0 {
				return start
			}
		case '{', '[':
			depth++
			at++
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
			at++
		case ',', ':', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return at
			}
			at++
			continue
		default:
			at++
			if depth == 0 && at < len(data) && !bytes.ContainsRune([]byte(",:]} \n\r\t"),
				rune(data[at])) {
				continue
			}
		}
		if depth == 0 {
			return at
		}
	}
	return -1
}

// skipString returns the index after the string at a place; -1 if it does not end.
func skipString(data []byte, at int) int {
	for at++; ; {
		n := bytes.IndexByte(data[at:], '"')
		if n < 0 {
			return -1
		}
		end := at + n
		slashes := 0
		for end-slashes > at && data[end-slashes-1] == '\\' {
			slashes++
		}
		at = end + 1
		if slashes%2 == 0 {
			return at
		}
	}
}

// text returns the text of a JSON string; "" if value is none.
func text(value []byte) (s string) {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	_ = json.Unmarshal(value, &s)
	return s
}
