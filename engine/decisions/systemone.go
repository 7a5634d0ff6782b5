package decisions

// The body of /v1/systemone. Its questions have names, and criteria for their options. State,
// instructions and criteria are texts, or JSON that is read as text.

import (
	"encoding/json"
	"fmt"
	"slices"

	"headroom/engine/chat"
	"headroom/engine/jsonbody"
)

// wireSystemOne has the fields that work.
type wireSystemOne struct {
	Model              string          `json:"model"`
	State              json.RawMessage `json:"state"`
	Questions          json.RawMessage `json:"questions"`
	ChatTemplateKwargs json.RawMessage `json:"chat_template_kwargs"` // Headroom's, as is Cache
	Cache              *string         `json:"cache"`
}

// wireNamed has the fields of all questions.
type wireNamed struct {
	Type         string          `json:"type"`
	Instructions json.RawMessage `json:"instructions"`
	Criteria     json.RawMessage `json:"criteria"`
}

// ParseSystemOne parses the body of a request of System One. The error is an *Error.
func ParseSystemOne(body []byte) (*Request, error) {
	w := &wireSystemOne{}
	if err := decode(body, w, systemOneByName); err != nil {
		return nil, err
	}
	r := &Request{}
	if err := r.readParams(w.Model, w.Cache, w.ChatTemplateKwargs); err != nil {
		return nil, err
	}
	if jsonbody.IsNull(w.State) {
		return nil, badParam("state", "is missing")
	}
	state, bad := readText(w.State, "state")
	if bad != nil {
		return nil, bad
	}
	r.Messages = []chat.Message{{Role: "user", Content: state}}
	if err := r.readNamed(w.Questions); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Request) readNamed(raw json.RawMessage) error {
	if err := required(raw, "an object", "questions"); err != nil {
		return err
	}
	err := jsonbody.Members(jsonbody.Trimmed(raw), func(name string, value []byte) *Error {
		if len(r.Questions) == maxQuestions {
			return badParam("questions", "at most %d questions", maxQuestions)
		}
		q, err := readNamedQuestion(value, fmt.Sprintf("questions.%.80s", name))
		q.Name = &name
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

func readNamedQuestion(raw []byte, path string) (q Question, err *Error) {
	var w wireNamed
	if err := fillObject(raw, &w, path); err != nil {
		return q, err
	}
	if q.Instructions, err = readText(w.Instructions, path+".instructions"); err != nil {
		return q, err
	}
	criteria := path + ".criteria"
	switch w.Type {
	case "noul":
		q.Kind = Predicate
		q.Options, err = readNoul(w.Criteria, criteria)
		if err == nil && q.Instructions == "" && q.Options[0].Description == "" &&
			q.Options[1].Description == "" {
			err = badParam(path+".instructions", "is missing, and so are the criteria")
		}
	case "choice":
		q.Kind = Choice
		q.Options, err = readCriteria(w.Criteria, criteria)
	case "score":
		q.Kind = Score
		q.Options, err = readRubric(w.Criteria, criteria)
	case "box":
		err = unsupported(path+".type", "%q is not supported: the model reads text only", w.Type)
	case "":
		err = badParam(path+".type", `is missing; expected "noul", "choice" or "score"`)
	default:
		err = badParam(path+".type", `expected "noul", "choice" or "score", got %.80q`, w.Type)
	}
	return q, err
}

// readNoul reads the criteria of a noul, {"true": ..., "false": ...}, which may be missing.
func readNoul(raw json.RawMessage, path string) ([]Option, *Error) {
	var w struct {
		True  json.RawMessage `json:"true"`
		False json.RawMessage `json:"false"`
	}
	if err := jsonbody.Fill(orNull(raw), &w, path); err != nil {
		return nil, err
	}
	yes, err := readText(w.True, path+".true")
	if err != nil {
		return nil, err
	}
	no, err := readText(w.False, path+".false")
	return yesOrNo(yes, no), err
}

// orNull returns null for a value that is absent.
func orNull(raw json.RawMessage) json.RawMessage {
	if jsonbody.IsNull(raw) {
		return json.RawMessage("null")
	}
	return raw
}

// readCriteria reads the criteria of a choice: an object of names and descriptions or nulls.
func readCriteria(raw json.RawMessage, path string) (options []Option, err *Error) {
	if err := required(raw, "an object", path); err != nil {
		return nil, err
	}
	err = jsonbody.Members(jsonbody.Trimmed(raw), func(name string, value []byte) *Error {
		text, err := readText(value, fmt.Sprintf("%s.%.80s", path, name))
		options = append(options, Option{Value: json.RawMessage(quote(name)), Text: name,
			Description: text})
		return err
	})
	if err == nil {
		err = checkCount(len(options), path)
	}
	return options, err
}

// readRubric reads the criteria of a score: an array of levels, the lowest one first.
func readRubric(raw json.RawMessage, path string) (options []Option, err *Error) {
	if err := required(raw, "an array", path); err != nil {
		return nil, err
	}
	err = jsonbody.Elements(jsonbody.Trimmed(raw), func(value []byte) *Error {
		at := fmt.Sprintf("%s[%d]", path, len(options))
		if jsonbody.IsNull(value) {
			return badParam(at, "expected a string, an object or an array, got null")
		}
		text, err := readText(value, at)
		options = append(options, Option{Value: slices.Clone(value), Text: text})
		return err
	})
	if err == nil {
		err = checkCount(len(options), path)
	}
	return options, err
}

// readText returns a string, or an object or array as text. null is "".
func readText(raw json.RawMessage, path string) (string, *Error) {
	switch kind := jsonbody.Kind(raw); {
	case jsonbody.IsNull(raw):
		return "", nil
	case kind == "a string":
		var text string
		err := jsonbody.Fill(raw, &text, path)
		return text, err
	case kind == "an object" || kind == "an array":
		return readJSON(raw, path)
	default:
		return "", badParam(path, "expected a string, an object or an array, got %s", kind)
	}
}
