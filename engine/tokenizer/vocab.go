package tokenizer

// Parsing of vocab and merges, which make up most of a tokenizer.json: about 250,000 entries each,
// tens of megabytes. encoding/json would take seconds for them on a busy machine. The input has
// been checked to be valid JSON, but its types may not be the expected ones.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// jsonReader reads JSON tokens from data[at:].
type jsonReader struct {
	data []byte
	at   int
}

// peek skips spaces and returns the next byte without consuming it. At the end it returns 0.
func (r *jsonReader) peek() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take skips spaces and consumes the next byte if it is c. It reports whether it was.
func (r *jsonReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.at++
	return true
}

// text reads a string. The result may point into data.
func (r *jsonReader) text() ([]byte, error) {
	if !r.take('"') {
		return nil, r.errorf("a string")
	}
	start, escaped := r.at, false
	for ; r.at < len(r.data); r.at++ {
		switch r.data[r.at] {
		case '\\':
			escaped = true
			r.at++
		case '"':
			r.at++
			if !escaped {
				return r.data[start : r.at-1], nil
			}
			var s string
			err := json.Unmarshal(r.data[start-1:r.at], &s)
			return []byte(s), err
		}
	}
	return nil, errors.New("a string is not closed")
}

// number reads the characters of a number.
func (r *jsonReader) number() string {
	r.peek()
	start := r.at
	for r.at < len(r.data) && bytes.IndexByte([]byte("+-.0123456789eE"), r.data[r.at]) >= 0 {
		r.at++
	}
	return string(r.data[start:r.at])
}

// id reads an integer that fits an int32.
func (r *jsonReader) id() (int32, error) {
	r.peek()
	start := r.at
	n, err := strconv.ParseInt(r.number(), 10, 32)
	if err != nil {
		r.at = start
		return 0, r.errorf("an integer below 2^31")
	}
	return int32(n), nil
}

func (r *jsonReader) errorf(expected string) error {
	r.peek()
	rest := r.data[r.at:]
	return fmt.Errorf("got %.20q, expected %s", rest[:min(len(rest), 20)], expected)
}

// parseVocab parses {"token": id, …}.
func parseVocab(raw []byte) (map[string]int32, error) {
	r := jsonReader{data: raw}
	if !r.take('{') {
		return nil, r.errorf("an object from token to id")
	}
	vocab := make(map[string]int32, min(len(raw)/20, maxVocab)) // an entry takes about 20 bytes
	for first := true; !r.take('}'); first = false {
		if !first && !r.take(',') {
			return nil, r.errorf("a comma")
		}
		token, err := r.text()
		if err != nil {
			return nil, err
		}
		name := string(token)
		if len(name) > maxTokenBytes {
			return nil, fmt.Errorf("%.40q… has %d bytes, the limit is %d", name, len(name),
				maxTokenBytes)
		}
		if len(vocab) >= maxVocab {
			return nil, fmt.Errorf("it has more than %d tokens", maxVocab)
		}
		if _, twice := vocab[name]; twice {
			return nil, fmt.Errorf("%q appears twice", name)
		}
		if !r.take(':') {
			return nil, r.errorf("a colon")
		}
		if vocab[name], err = r.id(); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	return vocab, nil
}

// eachMerge parses ["a b", …] or [["a", "b"], …] and calls merge("a", "b") for each entry, in
// order. The arguments are valid only during the call.
func eachMerge(raw []byte, merge func(left, right []byte) error) error {
	r := jsonReader{data: raw}
	if !r.take('[') {
		return r.errorf("an array of merges")
	}
	for first := true; !r.take(']'); first = false {
		if !first && !r.take(',') {
			return r.errorf("a comma")
		}
		left, right, err := r.merge()
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
func (r *jsonReader) merge() (left, right []byte, err error) {
	if !r.take('[') {
		line, err := r.text()
		if err != nil {
			return nil, nil, err
		}
		left, right, ok := bytes.Cut(line, []byte(" "))
		if !ok || bytes.ContainsRune(right, ' ') {
			return nil, nil, fmt.Errorf("got %q, expected two tokens and one space", line)
		}
		return left, right, nil
	}
	if left, err = r.text(); err != nil {
		return nil, nil, err
	}
	if !r.take(',') {
		return nil, nil, r.errorf("two tokens")
	}
	if right, err = r.text(); err != nil {
		return nil, nil, err
	}
	if !r.take(']') {
		return nil, nil, r.errorf("two tokens")
	}
	return left, right, nil
}

// parseScores parses [["token", score], …].
func parseScores(raw []byte) (tokens []string, scores []float64, err error) {
	r := jsonReader{data: raw}
	if !r.take('[') {
		return nil, nil, r.errorf("an array of tokens and scores")
	}
	for !r.take(']') {
		if len(tokens) > 0 && !r.take(',') {
			return nil, nil, r.errorf("a comma")
		}
		if len(tokens) >= maxVocab {
			return nil, nil, fmt.Errorf("it has more than %d tokens", maxVocab)
		}
		if !r.take('[') {
			return nil, nil, r.errorf("a token and its score")
		}
		token, err := r.text()
		if err != nil {
			return nil, nil, err
		}
		if !r.take(',') {
			return nil, nil, r.errorf("a token and its score")
		}
		text := r.number()
		score, err := parseScore(text)
		if err != nil || !r.take(']') {
			return nil, nil, fmt.Errorf("%.40q has the score %.20q, expected a number", token, text)
		}
		tokens, scores = append(tokens, string(token)), append(scores, score)
	}
	return tokens, scores, nil
}

// parseScore reads a score as Hugging Face's tokenizers does. Its JSON parser, serde_json, takes as
// many digits as fit into 64 bits and rounds twice: these digits, and what shifting the decimal
// point makes of them. The last bit decides between splits of a word whose scores are equal
// otherwise.
func parseScore(text string) (float64, error) {
	const exactPowers = 31 // of ten, in math.Pow10
	nearest, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, taken := uint64(0), 0
	for _, c := range whole + fraction {
		high, low := bits.Mul64(digits, 10)
		sum, carry := bits.Add64(low, uint64(c-'0'), 0)
		if high+carry > 0 {
			break
		}
		digits, taken = sum, taken+1
	}
	shift, _ := strconv.Atoi(exponent) // 0 if there is none
	shift += len(whole) - taken
	score := float64(digits)
	switch {
	case max(shift, -shift) > exactPowers:
		return nearest, nil // no score of a model is so large or small
	case shift < 0:
		score /= math.Pow10(-shift)
	default:
		score *= math.Pow10(shift)
	}
	return math.Copysign(score, nearest), nil
}
