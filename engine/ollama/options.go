package ollama

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"

	"headroom/engine/jsonbody"
	"headroom/engine/problem"
)

// wireOptions has the options that work.
type wireOptions struct {
	Temperature      *float64        `json:"temperature"`
	TopP             *float64        `json:"top_p"`
	TopK             *int            `json:"top_k"`
	MinP             *float64        `json:"min_p"`
	RepeatPenalty    *float64        `json:"repeat_penalty"`
	RepeatLastN      *int            `json:"repeat_last_n"`
	PresencePenalty  *float64        `json:"presence_penalty"`
	FrequencyPenalty *float64        `json:"frequency_penalty"`
	Seed             json.RawMessage `json:"seed"`
	NumPredict       *int            `json:"num_predict"`
	Stop             json.RawMessage `json:"stop"`
}

// Limits of one request.
const (
	maxStops     = 64
	maxStopBytes = 4096
)

// The tokens that penalties count: Ollama's default, and the most, which -1 stands for.
const (
	defaultRepeatLastN = 64
	maxRepeatLastN     = 1 << 17
)

func (r *Request) readOptions(w *wireOptions) error {
	r.PenaltyTokens = defaultRepeatLastN
	if w == nil {
		return nil
	}
	r.Temperature, r.TopP, r.TopK, r.MinP = w.Temperature, w.TopP, w.TopK, w.MinP
	r.RepetitionPenalty = w.RepeatPenalty
	r.PresencePenalty, r.FrequencyPenalty = w.PresencePenalty, w.FrequencyPenalty
	if w.NumPredict != nil && *w.NumPredict > 0 { // else there is no limit
		r.MaxTokens = *w.NumPredict
	}
	return first(
		func() error { return inOptions(r.Normalize()) },
		func() error { return r.readRepeatLastN(w.RepeatLastN) },
		func() (err error) { r.Seed, err = parseSeed(w.Seed); return },
		func() (err error) { r.Stop, err = parseStop(w.Stop); return },
	)
}

// inOptions returns an error of generate.Params with the name that the parameter has in options.
func inOptions(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	name := e.Param
	if name == "repetition_penalty" {
		name = "repeat_penalty"
	}
	text := strings.TrimPrefix(e.Problem.Message, e.Param)
	return &Error{Param: "options." + name,
		Problem: problem.New(e.Problem.Code, "options."+name+text, "", "")}
}

// readRepeatLastN reads how many tokens the penalties count. With 0 there is no penalty.
func (r *Request) readRepeatLastN(n *int) error {
	switch {
	case n == nil:
	case *n == 0:
		r.RepetitionPenalty, r.PresencePenalty, r.FrequencyPenalty = new(1.0), new(0.0), new(0.0)
	case *n == -1:
		r.PenaltyTokens = maxRepeatLastN
	case *n < 0 || *n > maxRepeatLastN:
		return badParam("options.repeat_last_n", "must be between -1 and %d, got %d",
			maxRepeatLastN, *n)
	default:
		r.PenaltyTokens = *n
	}
	return nil
}

// parseSeed parses an integer of any size, whose value is taken modulo 2^64. Ollama's default, -1,
// is a random seed: nil.
func parseSeed(raw json.RawMessage) (*int64, error) {
	const param = "options.seed"
	if jsonbody.IsNull(raw) {
		return nil, nil
	}
	if !jsonbody.IsNumber(raw) {
		return nil, badParam(param, "expected an integer, got %s", jsonbody.Kind(raw))
	}
	n, ok := jsonbody.Integer(raw)
	if !ok {
		return nil, badParam(param, "expected an integer, got %s", jsonbody.Shorten(raw))
	}
	if n.IsInt64() && n.Int64() == -1 {
		return nil, nil
	}
	n.And(n, new(big.Int).SetUint64(math.MaxUint64)) // as two's complement
	return new(int64(n.Uint64())), nil
}

// parseStop parses an array of strings, or one string. Empty strings are dropped.
func parseStop(raw json.RawMessage) (stops []string, err error) {
	const param = "options.stop"
	if jsonbody.IsNull(raw) {
		return nil, nil
	}
	var list []string
	if jsonbody.Kind(raw) == "a string" {
		list = make([]string, 1)
		err = jsonbody.Decode(raw, &list[0], param)
	} else {
		err = jsonbody.Decode(raw, &list, param)
	}
	if err != nil {
		return nil, err
	}
	if len(list) > maxStops {
		return nil, badParam(param, "at most %d stop texts, got %d", maxStops, len(list))
	}
	for _, stop := range list {
		if len(stop) > maxStopBytes {
			return nil, badParam(param, "at most %d bytes each, got %d", maxStopBytes, len(stop))
		}
		if stop != "" {
			stops = append(stops, stop)
		}
	}
	return stops, nil
}
