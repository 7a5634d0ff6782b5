package decisions

import (
	"encoding/json"
	"strings"
)

// Limits of a request, which are OpenAI's.
const (
	maxQuestions = 400
	minOptions   = 2
	maxOptions   = 255
)

// Kind says what a question asks for.
type Kind uint8

// The kinds of questions.
const (
	Predicate Kind = iota // whether a statement is true
	Choice                // which option fits best
	Score                 // which level fits best
)

// Question is a question about the state.
type Question struct {
	Name         *string // nil: none
	Kind         Kind
	Instructions string   // may be empty
	Options      []Option // of a Predicate: yes and no
}

// Option is a possible answer to a question.
type Option struct {
	Value       json.RawMessage // as the client has sent it; nil for a Predicate
	Text        string
	Description string // may be empty
}

// yesOrNo returns the options of a Predicate, with descriptions of both.
func yesOrNo(yes, no string) []Option {
	return []Option{{Text: "Yes", Description: yes}, {Text: "No", Description: no}}
}

// text returns the message that asks a question. labels has one label for each option. They are
// letters, except that those of a Predicate are its options.
//
// The message of a question never mentions the others, and comes after the state. So the state is
// computed once, and an answer does not depend on what else is asked.
func (q *Question) text(labels []string) string {
	var b strings.Builder
	line := func(parts ...string) {
		for _, part := range parts {
			b.WriteString(part)
		}
		b.WriteByte('\n')
	}
	line("This is a question about everything above.")
	line()
	if q.Instructions != "" {
		line(q.Instructions)
		line()
	}
	if q.Kind == Score {
		line("The levels, from the lowest to the highest:")
	}
	listed := false
	for i, o := range q.Options {
		switch {
		case q.Kind == Predicate && o.Description == "":
			continue
		case q.Kind == Predicate:
			line(o.Text, ": ", o.Description)
		case o.Description == "":
			line(labels[i], ". ", o.Text)
		default:
			line(labels[i], ". ", o.Text, ": ", o.Description)
		}
		listed = true
	}
	if listed {
		line()
	}
	switch q.Kind {
	case Predicate:
		b.WriteString("Answer with Yes if this is so, and with No otherwise. Write nothing else.")
	case Choice:
		b.WriteString("Answer with the letter of the option that fits best. Write nothing else.")
	case Score:
		b.WriteString("Answer with the letter of the level that fits best. Write nothing else.")
	}
	return b.String()
}
