package openai

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/openai/openai-go/v3"

	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestFieldsAreRead(t *testing.T) {
	fieldtest.Read(t, fieldsOf(field.ofChat), reflect.TypeFor[wireChat]())
	fieldtest.Read(t, fieldsOf(field.ofCompletion), reflect.TypeFor[wireCompletion]())
}

func TestFieldsOfTheReference(t *testing.T) {
	fieldtest.Client(t, fieldsOf(field.ofChat), reflect.TypeFor[openai.ChatCompletionNewParams](),
		15)
	fieldtest.Client(t, fieldsOf(field.ofCompletion), reflect.TypeFor[openai.CompletionNewParams](),
		15)
}

// TestOtherFields also checks OpenAI's form of the error of a refused field.
func TestOtherFields(t *testing.T) {
	refused := 0
	refuses := func(f jsonbody.Field, err error) {
		refused++
		checkError(t, err, f.Name, "is not supported")
		if body := NewErrorBody(err); body.Error.Code == nil ||
			*body.Error.Code != "unsupported_parameter" || *body.Error.Param != f.Name {
			t.Errorf("%s: %+v", f.Name, body.Error)
		}
	}
	fieldtest.Others(t, fieldsOf(field.ofChat),
		func(member string) (*ChatRequest, error) { return ParseChat([]byte(chatBody(member))) },
		refuses)
	fieldtest.Others(t, fieldsOf(field.ofCompletion),
		func(member string) (*CompletionRequest, error) {
			if member != "" {
				member = "," + member
			}
			return ParseCompletion([]byte(`{"prompt":"hi"` + member + `}`))
		}, refuses)
	if refused < 80 {
		t.Errorf("only %d refused fields", refused)
	}
	for _, value := range []string{`0.0`, `0e5`, `-0`} {
		if _, err := ParseChat([]byte(chatBody(`"mirostat":` + value))); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	if _, err := ParseChat([]byte(chatBody(`"modalities": [ "text" ]`))); err != nil {
		t.Error(err)
	}
}

// TestFieldTable checks that engine/server/API.md has the tables of fields as they are.
func TestFieldTable(t *testing.T) {
	tables := ""
	seen := map[string]bool{}
	for _, o := range fieldTable {
		tables += fmt.Sprintf("\n### Fields of %s\n\n| field | chat | completions | notes |\n"+
			"|---|---|---|---|\n", o.name)
		var rows []jsonbody.Field
		for _, f := range o.fields {
			if seen[f.name] {
				t.Errorf("%s is there twice", f.name)
			}
			seen[f.name] = true
			rows = append(rows, f.ofChat())
			tables += fieldtest.Row(f.ofChat(), f.chat, f.completion)
		}
		fieldtest.Sorted(t, rows)
	}
	tables += "\n### Fields of embeddings\n\n| field | embeddings | notes |\n|---|---|---|\n"
	for _, f := range embeddingFields {
		tables += fieldtest.Row(f, f.Support)
	}
	fieldtest.Document(t, "openai", "the generated tables", tables+"\n")
}
