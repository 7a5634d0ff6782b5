package tokenizer

import (
	"fmt"
	"reflect"
	"testing"
)

// TestPair checks the special tokens of pairs of texts in every kind of post_processor.
func TestPair(t *testing.T) {
	const special = `"special_tokens": {"[C]": {"ids": [1]}, "[S]": {"ids": [2]}}`
	token := func(name string) string { return fmt.Sprintf(`{"SpecialToken": {"id": %q}}`, name) }
	text := func(name string) string { return fmt.Sprintf(`{"Sequence": {"id": %q}}`, name) }
	single := `"single": [` + token("[C]") + "," + text("A") + "," + token("[S]") + `]`
	for _, c := range []struct {
		processor string
		want      *Pair
	}{
		{`null`, nil},
		{`{"type": "BertProcessing", "sep": ["[S]", 2], "cls": ["[C]", 1]}`,
			&Pair{Before: []int32{1}, Between: []int32{2}, After: []int32{2}}},
		{`{"type": "RobertaProcessing", "sep": ["[S]", 2], "cls": ["[C]", 1]}`,
			&Pair{Before: []int32{1}, Between: []int32{2, 2}, After: []int32{2}}},
		{`{"type": "TemplateProcessing", ` + single + `, "pair": [` + token("[C]") + "," +
			text("A") + "," + token("[S]") + "," + text("B") + "," + token("[S]") + `], ` +
			special + `}`, &Pair{Before: []int32{1}, Between: []int32{2}, After: []int32{2}}},
		{`{"type": "TemplateProcessing", ` + single + `, "pair": [` + text("B") + "," + text("A") +
			`], ` + special + `}`, nil},
		{`{"type": "TemplateProcessing", ` + single + `, "pair": [` + text("A") + "," +
			token("[X]") + "," + text("B") + `], ` + special + `}`, nil},
		{`{"type": "TemplateProcessing", ` + single + `, ` + special + `}`, nil},
	} {
		tok, err := Parse([]byte(`{"model": {"type": "WordLevel", "unk_token": "a",
			"vocab": {"a": 0, "[C]": 1, "[S]": 2}}, "post_processor": ` + c.processor + `}`))
		if err != nil {
			t.Errorf("%s: %v", c.processor, err)
			continue
		}
		if got := tok.Pair(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, expected %+v", c.processor, got, c.want)
		}
	}
}
