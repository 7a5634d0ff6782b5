package decisions

import (
	"bytes"
	"encoding/json"
	"strconv"

	"headroom/engine/generate"
)

// Decision is the answer of /v1/decisions.
type Decision struct {
	Answers []any  `json:"answers"` // in the order of the questions
	Model   string `json:"model"`
	Usage   Usage  `json:"usage"`
}

// PredicateAnswer is the answer to a question of the type predicate.
type PredicateAnswer struct {
	Type        string  `json:"type"` // "predicate"
	Name        *string `json:"name"` // null: the question has none. So it is in the other answers
	Probability float64 `json:"probability"`
}

// ChoiceAnswer is the answer to a question of the type choice.
type ChoiceAnswer struct {
	Type          string              `json:"type"` // "choice"
	Name          *string             `json:"name"`
	Choice        json.RawMessage     `json:"choice"` // a string or a boolean, as in the question
	Confidence    float64             `json:"confidence"`
	Probabilities []ChoiceProbability `json:"probabilities"`
}

// ChoiceProbability is the probability of an option.
type ChoiceProbability struct {
	Value       json.RawMessage `json:"value"`
	Probability float64         `json:"probability"`
}

// ScoreAnswer is the answer to a question of the type score.
type ScoreAnswer struct {
	Type          string             `json:"type"` // "score"
	Name          *string            `json:"name"`
	Score         float64            `json:"score"` // the expected level
	Confidence    float64            `json:"confidence"`
	Probabilities []ScoreProbability `json:"probabilities"`
}

// ScoreProbability is the probability of a level.
type ScoreProbability struct {
	Label       string  `json:"label"`
	Value       int     `json:"value"` // the number of the level, from 0
	Probability float64 `json:"probability"`
}

// Refusal is the answer to a question that the model cannot answer.
type Refusal struct {
	Type string  `json:"type"` // "refusal"
	Name *string `json:"name"`
}

// Usage counts tokens. Nothing is generated.
type Usage struct {
	InputTokens         int           `json:"input_tokens"` // of the prompts of all questions
	InputTokensDetails  InputDetails  `json:"input_tokens_details"`
	OutputTokens        int           `json:"output_tokens"`
	OutputTokensDetails OutputDetails `json:"output_tokens_details"`
	TotalTokens         int           `json:"total_tokens"`
}

// InputDetails says which input tokens came from the cache. Nobody pays for writing it.
type InputDetails struct {
	CachedTokens     int `json:"cached_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"`
}

// OutputDetails says how many output tokens were reasoning.
type OutputDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// openAI makes the document of /v1/decisions.
func openAI(d *decision, answers []answer, usage generate.Usage) any {
	list := make([]any, len(answers))
	for i := range answers {
		list[i] = openAIAnswer(&d.questions[i], &answers[i])
	}
	return &Decision{Answers: list, Model: d.model, Usage: Usage{
		InputTokens:        usage.PromptTokens,
		InputTokensDetails: InputDetails{CachedTokens: usage.CachedTokens},
		OutputTokens:       usage.CompletionTokens,
		TotalTokens:        usage.PromptTokens + usage.CompletionTokens}}
}

func openAIAnswer(q *Question, a *answer) any {
	if a.refused {
		return Refusal{"refusal", q.Name}
	}
	switch q.Kind {
	case Predicate:
		return PredicateAnswer{"predicate", q.Name, a.probabilities[0]}
	case Choice:
		list := make([]ChoiceProbability, len(q.Options))
		for i, o := range q.Options {
			list[i] = ChoiceProbability{o.Value, a.probabilities[i]}
		}
		return ChoiceAnswer{"choice", q.Name, q.Options[a.best].Value, a.confidence(), list}
	}
	list := make([]ScoreProbability, len(q.Options))
	for i, o := range q.Options {
		list[i] = ScoreProbability{o.Text, i, a.probabilities[i]}
	}
	return ScoreAnswer{"score", q.Name, a.score(), a.confidence(), list}
}

// SystemOne is the answer of /v1/systemone. A question that the model cannot answer has none.
type SystemOne struct {
	Model   string         `json:"model"`
	Answers object         `json:"answers"` // by the names of the questions, in their order
	Usage   SystemOneUsage `json:"usage"`
}

// SystemOneUsage counts tokens. Nothing is generated.
type SystemOneUsage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// NoulAnswer is the answer to a question of the type noul.
type NoulAnswer struct {
	Type string  `json:"type"` // "noul"
	Noul float64 `json:"noul"` // the probability that the statement is true
}

// SystemOneChoice is the answer to a question of the type choice.
type SystemOneChoice struct {
	Type          string          `json:"type"` // "choice"
	Choice        json.RawMessage `json:"choice"`
	Confidence    float64         `json:"confidence"`
	Probabilities object          `json:"probabilities"` // by the names of the options
}

// SystemOneScore is the answer to a question of the type score.
type SystemOneScore struct {
	Type          string  `json:"type"`  // "score"
	Score         float64 `json:"score"` // the expected level
	Confidence    float64 `json:"confidence"`
	Legend        object  `json:"legend"`        // the levels by their numbers, from 0
	Probabilities object  `json:"probabilities"` // by the same numbers
}

// systemOne makes the document of /v1/systemone.
func systemOne(d *decision, answers []answer, usage generate.Usage) any {
	list := object{}
	for i := range answers {
		if !answers[i].refused {
			list = append(list, member{*d.questions[i].Name,
				systemOneAnswer(&d.questions[i], &answers[i])})
		}
	}
	return &SystemOne{Model: d.model, Answers: list, Usage: SystemOneUsage{
		usage.PromptTokens, usage.CompletionTokens}}
}

func systemOneAnswer(q *Question, a *answer) any {
	if q.Kind == Predicate {
		return NoulAnswer{"noul", a.probabilities[0]}
	}
	var legend, list object
	for i, o := range q.Options {
		name := o.Text
		if q.Kind == Score {
			name = strconv.Itoa(i)
			legend = append(legend, member{name, o.Value})
		}
		list = append(list, member{name, a.probabilities[i]})
	}
	if q.Kind == Choice {
		return SystemOneChoice{"choice", q.Options[a.best].Value, a.confidence(), list}
	}
	return SystemOneScore{"score", a.score(), a.confidence(), legend, list}
}

// object is a JSON object whose members stay in order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(m.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
