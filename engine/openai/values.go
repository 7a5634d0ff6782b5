package openai

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Parsing of parameters that have several valid types: stop, logit_bias and prompt.

// ParseStop parses a string or an array of strings. Empty strings are dropped.
func ParseStop(raw json.RawMessage) ([]string, error) {
	if isNull(raw) {
		return nil, nil
	}
	var list []*string
	var one string
	if json.Unmarshal(raw, &one) == nil {
		list = []*string{&one}
	} else if json.Unmarshal(raw, &list) != nil {
		return nil, badParam("stop", "expected a string or an array of strings, got %s",
			describe(raw))
	}
	if len(list) > maxStops {
		return nil, badParam("stop", "at most %d stop texts, got %d", maxStops, len(list))
	}
	var stops []string
	for i, s := range list {
		switch {
		case s == nil || *s == "":
		case len(*s) > maxStopBytes:
			return nil, badParam("stop["+strconv.Itoa(i)+"]", "at most %d bytes, got %d",
				maxStopBytes, len(*s))
		default:
			stops = append(stops, *s)
		}
	}
	return stops, nil
}

// describe describes the type of a value for errors. For an array, it includes the type of the
// first element.
func describe(raw json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return "an array with " + kind(list[0])
	}
	return kind(raw)
}

const mostBias = 100

// parseLogitBias parses an object that maps token ids to numbers in [-mostBias, mostBias].
func parseLogitBias(raw json.RawMessage) (map[int32]float32, error) {
	if isNull(raw) {
		return nil, nil
	}
	var wire map[string]json.RawMessage
	if json.Unmarshal(raw, &wire) != nil {
		return nil, badParam("logit_bias", "expected an object of token ids to numbers, got %s",
			kind(raw))
	}
	if len(wire) > maxLogitBias {
		return nil, badParam("logit_bias", "at most %d tokens, got %d", maxLogitBias, len(wire))
	}
	bias := make(map[int32]float32, len(wire))
	for key, value := range wire {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return nil, badParam("logit_bias",
				"the key %q is not a token id, expected an integer of at least 0", key)
		}
		var v *float64
		err = json.Unmarshal(value, &v)
		switch {
		case err != nil && jsonbody.IsNumber(value): // it is beyond any float64
			return nil, badParam("logit_bias."+key, "must be between -%d and %[1]d, got %s",
				mostBias, jsonbody.Shorten(value))
		case err != nil || v == nil:
			return nil, badParam("logit_bias."+key, "expected a number, got %s", kind(value))
		}
		if err := generate.Within("logit_bias."+key, v, -mostBias, mostBias); err != nil {
			return nil, err
		}
		if _, has := bias[int32(id)]; has {
			return nil, badParam("logit_bias."+key, "the token %d has two values", id)
		}
		bias[int32(id)] = float32(*v)
	}
	return bias, nil
}

// parsePrompts parses a string, an array of token ids, or an array of these.
func parsePrompts(param string, raw json.RawMessage) ([]generate.Prompt, error) {
	const expected = "expected a string or an array of token ids, got %s"
	if isNull(raw) {
		return nil, badParam(param, "is missing")
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []generate.Prompt{{Text: text}}, nil
	}
	if raw[0] != '[' {
		return nil, badParam(param, expected, kind(raw))
	}
	n, first := count(raw)
	switch {
	case n == 0:
		return nil, badParam(param, "the array is empty")
	case first[0] != '"' && first[0] != '[':
		tokens, err := parseTokens(param, raw, n)
		if err != nil {
			return nil, err
		}
		return []generate.Prompt{{Tokens: tokens}}, nil
	case n > maxPrompts:
		return nil, badParam(param, "at most %d prompts, got %d", maxPrompts, n)
	}
	prompts := make([]generate.Prompt, 0, n)
	err := elements(raw, func(value []byte) *Error {
		name := param + "[" + strconv.Itoa(len(prompts)) + "]"
		var p generate.Prompt
		if isNull(value) || json.Unmarshal(value, &p.Text) != nil {
			n, _ := count(value)
			if n == 0 {
				return badParam(name, expected, kind(value))
			}
			var err *Error
			if p.Tokens, err = parseTokens(name, value, n); err != nil {
				return err
			}
		}
		prompts = append(prompts, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return prompts, nil
}

// count returns the number of elements of an array, and the first. It returns 0 if raw is not an
// array.
func count(raw []byte) (n int, first []byte) {
	if raw[0] != '[' {
		return 0, nil
	}
	_ = elements(raw, func(value []byte) *Error {
		if n++; n == 1 {
			first = value
		}
		return nil
	})
	return n, first
}

// parseTokens parses an array of n token ids. name is that of the parameter.
func parseTokens(name string, raw []byte, n int) ([]int32, *Error) {
	tokens := make([]int32, 0, n)
	err := elements(raw, func(value []byte) *Error {
		id, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || id < 0 || id > math.MaxInt32 {
			return badParam(name+"["+strconv.Itoa(len(tokens))+"]", "expected a token id, got %s",
				shorten(value))
		}
		tokens = append(tokens, int32(id))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return tokens, nil
}

// ParseSeed parses an integer of any size. Its value is taken modulo 2^64, as that of a signed
// integer of 64 bits.
func ParseSeed(raw json.RawMessage) (*int64, error) {
	if isNull(raw) {
		return nil, nil
	}
	if !jsonbody.IsNumber(raw) {
		return nil, badParam("seed", "expected an integer, got %s", kind(raw))
	}
	n, ok := jsonbody.Integer(raw)
	if !ok {
		return nil, badParam("seed", "expected an integer, got %s", shorten(raw))
	}
	n.And(n, new(big.Int).SetUint64(math.MaxUint64)) // as two's complement: -1 is 2^64-1
	return new(int64(n.Uint64())), nil
}
