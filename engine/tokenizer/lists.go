package tokenizer

// vocab and merges are nearly all of a tokenizer.json: a quarter of a million
// entries each, tens of megabytes. Filling Go values with encoding/json takes
// seconds on a busy machine, so these two are walked by hand. Their text is
// known to be valid JSON, but not to hold what it should.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// walker stands between two JSON tokens of data.
type walker struct {
	data []byte
	at   int
}

// peek skips spaces and returns the next byte, 0 at the end.
func (w *walker) peek() byte {
	for ; w.at < len(w.data); w.at++ {
		switch c := w.data[w.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take consumes c if it is next.
func (w *walker) take(c byte) bool {
	if w.peek() != c {
		return false
	}
	w.at++
	return true
}

// text reads a string. The result is valid until data changes.
func (w *walker) text() ([]byte, error) {
	if !w.take('"') {
		return nil, w.errorf("a string")
	}
	start, escaped := w.at, false
	for ; w.at < len(w.data); w.at++ {
		switch w.data[w.at] {
		case '\\':
			escaped = true
			w.at++
		case '"':
			w.at++
			if !escaped {
				return w.data[start : w.at-1], nil
			}
			var s string
			err := json.Unmarshal(w.data[start-1:w.at], &s)
			return []byte(s), err
		}
	}
	return nil, errors.New("string without an end")
}

// id reads a whole number that fits an id.
func (w *walker) id() (int32, error) {
	w.peek()
	start := w.at
	for w.at < len(w.data) && bytes.IndexByte([]byte("+-.0123456789eE"), w.data[w.at]) >= 0 {
		w.at++
	}
	n, err := strconv.ParseInt(string(w.data[start:w.at]), 10, 32)
	if err != nil {
		w.at = start
		return 0, w.errorf("a whole number below 2^31")
	}
	return int32(n), nil
}

func (w *walker) errorf(expected string) error {
	w.peek()
	rest := w.data[w.at:]
	return fmt.Errorf("got %.20q, expected %s", rest[:min(len(rest), 20)], expected)
}

// parseVocab reads {"token": id, …}.
func parseVocab(raw []byte) (map[string]int32, error) {
	w := walker{data: raw}
	if !w.take('{') {
		return nil, w.errorf("an object from token to id")
	}
	vocab := make(map[string]int32, len(raw)/20) // an entry takes about 20 bytes
	for first := true; !w.take('}'); first = false {
		if !first && !w.take(',') {
			return nil, w.errorf("a comma")
		}
		token, err := w.text()
		if err != nil {
			return nil, err
		}
		name := string(token)
		if _, twice := vocab[name]; twice {
			return nil, fmt.Errorf("%q appears twice", name)
		}
		if !w.take(':') {
			return nil, w.errorf("a colon")
		}
		if vocab[name], err = w.id(); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	return vocab, nil
}

// eachMerge reads ["a b", …] or [["a", "b"], …] and calls merge for each, in
// order; left and right are valid during the call.
func eachMerge(raw []byte, merge func(left, right []byte) error) error {
	w := walker{data: raw}
	if !w.take('[') {
		return w.errorf("a list of merges")
	}
	for first := true; !w.take(']'); first = false {
		if !first && !w.take(',') {
			return w.errorf("a comma")
		}
		left, right, err := w.merge()
		if err != nil {
			return err
		}
		if err := merge(left, right); err != nil {
			return err
		}
	}
	return nil
}

// merge reads "a b" or ["a", "b"].
func (w *walker) merge() (left, right []byte, err error) {
	if !w.take('[') {
		line, err := w.text()
		if err != nil {
			return nil, nil, err
		}
		left, right, ok := bytes.Cut(line, []byte(" "))
		if !ok || bytes.ContainsRune(right, ' ') {
			return nil, nil, fmt.Errorf("got %q, expected two tokens and one space", line)
		}
		return left, right, nil
	}
	if left, err = w.text(); err != nil {
		return nil, nil, err
	}
	if !w.take(',') {
		return nil, nil, w.errorf("two tokens")
	}
	if right, err = w.text(); err != nil {
		return nil, nil, err
	}
	if !w.take(']') {
		return nil, nil, w.errorf("two tokens")
	}
	return left, right, nil
}
