package decisions

// The body of /v1/decisions.

import (
	"encoding/json"
	"fmt"
	"slices"

	"headroom/engine/chat"
	"headroom/engine/generate"
	"headroom/engine/jsonbody"
)

// Request is a POST to /v1/decisions or /v1/systemone. Its Messages are the state.
type Request struct {
	generate.Request
	Questions []Question
}

// wireRequest has the fields that work.
type wireRequest struct {
	Model              string          `json:"model"`
	Input              json.RawMessage `json:"input"`
	Questions          json.RawMessage `json:"questions"`
	ChatTemplateKwargs json.RawMessage `json:"chat_template_kwargs"`
	Cache              *string         `json:"cache"` // Headroom's
}

// wireQuestion has the fields of all questions. null is the same as absent.
type wireQuestion struct {
	Type         string          `json:"type"`
	Name         *string         `json:"name"`
	Instructions json.RawMessage `json:"instructions"`
	Choices      []wireChoice    `json:"choices"`
	Levels       []wireLevel     `json:"levels"`
}

type wireChoice struct {
	Value       json.RawMessage `json:"value"`
	Description *string         `json:"description"`
}

type wireLevel struct {
	Label       *string `json:"label"`
	Description *string `json:"description"`
}

// Parse parses the body of a request for decisions. The error is an *Error.
func Parse(body []byte) (*Request, error) {
	w := &wireRequest{}
	if err := decode(body, w, fieldsByName); err != nil {
		return nil, err
	}
	r := &Request{}
	if err := r.readParams(w.Model, w.Cache, w.ChatTemplateKwargs); err != nil {
		return nil, err
	}
	if err := r.readInput(w.Input); err != nil {
		return nil, err
	}
	if err := r.readQuestions(w.Questions); err != nil {
		return nil, err
	}
	return r, nil
}

// decode checks a body and decodes it into a struct.
func decode(body []byte, wire any, fields jsonbody.FieldsByName) error {
	if err := jsonbody.Check(body); err != nil {
		return err
	}
	if err := jsonbody.Decode(body, wire, ""); err != nil {
		return err
	}
	return fields.Refuse(body)
}

// required returns an error unless a field has a value of this kind, such as "an array".
func required(raw json.RawMessage, kind, path string) *Error {
	switch got := jsonbody.Kind(raw); {
	case jsonbody.IsNull(raw):
		return badParam(path, "is missing")
	case got != kind:
		return badParam(path, "expected %s, got %s", kind, got)
	}
	return nil
}

// fillObject decodes an element or a member that must be an object, so not null, into a struct.
func fillObject(raw []byte, wire any, path string) *Error {
	if jsonbody.IsNull(raw) {
		return badParam(path, "expected an object, got null")
	}
	return jsonbody.Fill(raw, wire, path)
}

// readParams reads what both APIs have. The model does not think: it is asked for a label.
func (r *Request) readParams(model string, cache *string, kwargs json.RawMessage) (err error) {
	if len(model) > jsonbody.MaxNameBytes {
		return badParam("model", "at most %d bytes, got %d", jsonbody.MaxNameBytes, len(model))
	}
	r.Model, r.Effort = model, chat.Efforts[0]
	if cache != nil {
		if r.Cache, err = generate.ParseCaching("cache", *cache); err != nil {
			return err
		}
	}
	r.TemplateKwargs, err = jsonbody.Object("chat_template_kwargs", kwargs)
	return err
}

func (r *Request) readQuestions(raw json.RawMessage) error {
	if err := required(raw, "an array", "questions"); err != nil {
		return err
	}
	err := jsonbody.Elements(jsonbody.Trimmed(raw), func(element []byte) *Error {
		n := len(r.Questions)
		if n == maxQuestions {
			return badParam("questions", "at most %d questions", maxQuestions)
		}
		q, err := readQuestion(element, fmt.Sprintf("questions[%d]", n))
		r.Questions = append(r.Questions, q)
		return err
	})
	switch {
	case err != nil:
		return err
	case len(r.Questions) == 0:
		return badParam("questions", "expected at least one question, got none")
	}
	return nil
}

func readQuestion(raw []byte, path string) (q Question, err *Error) {
	var w wireQuestion
	if err := fillObject(raw, &w, path); err != nil {
		return q, err
	}
	q.Name = w.Name
	switch w.Type {
	case "predicate":
		q.Kind, q.Options = Predicate, yesOrNo("", "")
	case "choice":
		q.Kind = Choice
		q.Options, err = readChoices(w.Choices, path+".choices")
	case "score":
		q.Kind = Score
		q.Options, err = readLevels(w.Levels, path+".levels")
	case "":
		err = badParam(path+".type", `is missing; expected "predicate", "choice" or "score"`)
	default:
		err = badParam(path+".type", `expected "predicate", "choice" or "score", got %.80q`, w.Type)
	}
	switch {
	case err != nil:
		return q, err
	case q.Kind != Choice && w.Choices != nil:
		return q, badParam(path+".choices", "only a question of the type choice has them")
	case q.Kind != Score && w.Levels != nil:
		return q, badParam(path+".levels", "only a question of the type score has them")
	case jsonbody.IsNull(w.Instructions):
		return q, badParam(path+".instructions", "is missing")
	}
	q.Instructions, err = readContent(w.Instructions, path+".instructions")
	return q, err
}

func readChoices(choices []wireChoice, path string) (options []Option, err *Error) {
	if err := checkCount(len(choices), path); err != nil {
		return nil, err
	}
	seen := map[string]bool{} // by the value, so that "true" and true are different
	for i, c := range choices {
		o, at := Option{Value: slices.Clone(c.Value)}, fmt.Sprintf("%s[%d].value", path, i)
		var on bool
		switch {
		case jsonbody.IsNull(c.Value):
			return nil, badParam(at, "is missing")
		case jsonbody.Kind(c.Value) == "a string":
			if err := jsonbody.Fill(c.Value, &o.Text, at); err != nil {
				return nil, err
			}
			if seen["a string "+o.Text] {
				return nil, badParam(at, "%.80q is there twice", o.Text)
			}
			seen["a string "+o.Text] = true
		case json.Unmarshal(c.Value, &on) == nil:
			o.Text = string(o.Value)
			if seen[o.Text] {
				return nil, badParam(at, "%s is there twice", o.Text)
			}
			seen[o.Text] = true
		default:
			return nil, badParam(at, "expected a string or a boolean, got %s",
				jsonbody.Kind(c.Value))
		}
		if c.Description != nil {
			o.Description = *c.Description
		}
		options = append(options, o)
	}
	return options, nil
}

func readLevels(levels []wireLevel, path string) (options []Option, err *Error) {
	if err := checkCount(len(levels), path); err != nil {
		return nil, err
	}
	for i, l := range levels {
		if l.Label == nil {
			return nil, badParam(fmt.Sprintf("%s[%d].label", path, i), "is missing")
		}
		o := Option{Text: *l.Label}
		if l.Description != nil {
			o.Description = *l.Description
		}
		options = append(options, o)
	}
	return options, nil
}

// checkCount checks the number of options.
func checkCount(n int, path string) *Error {
	if n < minOptions || n > maxOptions {
		return badParam(path, "expected %d to %d entries, got %d", minOptions, maxOptions, n)
	}
	return nil
}
