package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"headroom/engine/generate"
)

// Parsing of parameters that have several valid types: stop, logit_bias and prompt.

// parseStop parses a string or an array of strings. Empty strings are dropped.
func parseStop(raw json.RawMessage) ([]string, error) {
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

// parseLogitBias parses an object that maps token ids to numbers in [-100, 100].
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
		if json.Unmarshal(value, &v) != nil || v == nil {
			return nil, badParam("logit_bias."+key, "expected a number, got %s", kind(value))
		}
		if err := generate.Within("logit_bias."+key, v, -100, 100); err != nil {
			return nil, err
		}
		if _, has := bias[int32(id)]; has {
			return nil, badParam("logit_bias."+key, "the token %d has two values", id)
		}
		bias[int32(id)] = float32(*v)
	}
	return bias, nil
}

// parsePrompt parses a string, an array of token ids, or an array with exactly one of these.
func parsePrompt(raw json.RawMessage) (text string, tokens []int32, err error) {
	if isNull(raw) {
		return "", nil, badParam("prompt", "is missing")
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	if raw[0] != '[' {
		return "", nil, badParam("prompt", "expected a string or an array of token ids, got %s",
			kind(raw))
	}
	prompts := 0
	var first []byte
	_ = elements(raw, func(value []byte) *Error {
		if prompts++; prompts == 1 {
			first = value
		}
		return nil
	})
	switch {
	case prompts == 0:
		return "", nil, badParam("prompt", "the array is empty")
	case first[0] != '"' && first[0] != '[':
		tokens, err = parseTokens(raw, prompts)
		return "", tokens, err
	case prompts > 1:
		return "", nil, badParam("prompt",
			"only one prompt per request is supported, got %d. Send them one by one", prompts)
	}
	return parseOnlyPrompt(first)
}

// parseOnlyPrompt parses the only element of an array of prompts: a string or an array of token
// ids.
func parseOnlyPrompt(raw []byte) (text string, tokens []int32, err error) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	n := 0
	_ = elements(raw, func([]byte) *Error { n++; return nil })
	if n == 0 {
		return "", nil, badParam("prompt[0]",
			"expected a string or an array of token ids, got %s", kind(raw))
	}
	tokens, err = parseTokens(raw, n)
	return "", tokens, err
}

// parseTokens parses an array of n token ids.
func parseTokens(raw []byte, n int) ([]int32, error) {
	tokens := make([]int32, 0, n)
	err := elements(raw, func(value []byte) *Error {
		id, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || id < 0 || id > math.MaxInt32 {
			return badParam("prompt["+strconv.Itoa(len(tokens))+"]", "expected a token id, got %s",
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

// shorten truncates a value to 40 characters for an error message.
func shorten(raw json.RawMessage) string {
	const most = 40
	runes := []rune(string(raw[:min(len(raw), 4*most)]))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most]) + "…"
}

// object checks that a value is absent, null or a JSON object. It returns nil unless it is an
// object.
func object(name string, raw json.RawMessage) (json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	if bytes.TrimSpace(raw)[0] != '{' {
		return nil, badParam(name, "expected an object, got %s", kind(raw))
	}
	return raw, nil
}
