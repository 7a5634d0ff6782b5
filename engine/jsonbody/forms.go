package jsonbody

// The fields of other APIs that demand a form of the answer. Each dialect has its own; those of all
// others are refused by name, with what to send instead.

import (
	"cmp"
	"slices"
)

// formFields are the fields with which the APIs and servers of language models demand a form of the
// answer. A client that sends one of another API would get an answer of any form.
var formFields = []Field{
	{Name: "ebnf"}, {Name: "format"}, {Name: "grammar"}, {Name: "grammar_string"},
	{Name: "guided_choice"}, {Name: "guided_grammar"}, {Name: "guided_json"},
	{Name: "guided_regex"}, {Name: "json_schema"}, {Name: "output_config"},
	{Name: "output_format"}, {Name: "regex"},
	{Name: "response_format", Harmless: `{"type":"text"}`}, {Name: "structural_tag"},
	{Name: "structured_outputs"}, {Name: "text", Harmless: `{"format":{"type":"text"}}`},
}

// WithFormFields returns a table with rows for the fields with which other APIs demand a form. They
// are refused with this advice. The table is in the order of its names.
func WithFormFields(instead string, table []Field) []Field {
	own := ByName(table)
	for _, f := range formFields {
		if own[f.Name].Support == Unknown {
			f.Support, f.Instead = Refused, instead
			f.Harmless += ` "" {} []`
			table = append(table, f)
		}
	}
	slices.SortFunc(table, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return table
}
