package responses

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"

	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestFieldsAreRead(t *testing.T) {
	fieldtest.Read(t, fieldTable, reflect.TypeFor[wireRequest]())
	fieldtest.Sorted(t, fieldTable)
}

func TestFieldsOfTheReference(t *testing.T) {
	fieldtest.Client(t, fieldTable, reflect.TypeFor[responses.ResponseNewParams](), 10)
	fieldtest.Client(t, fieldTable, reflect.TypeFor[responses.InputTokenCountParams](), 10)
}

func TestOtherFields(t *testing.T) {
	fieldtest.Others(t, fieldTable,
		func(member string) (*Request, error) { return Parse([]byte(withParams(member)), nil) },
		func(f jsonbody.Field, err error) {
			checkError(t, err, f.Name, strings.TrimSuffix("is not supported. "+f.Instead, ". "))
		})
}

// TestFieldTable checks that engine/server/API.md has the tables as they are.
func TestFieldTable(t *testing.T) {
	var tables strings.Builder
	for _, c := range []struct {
		what  string
		table []jsonbody.Field
	}{{"field", fieldTable}, {"item", itemTable}, {"tool", toolTable}} {
		fmt.Fprintf(&tables, "\n| %s | responses | notes |\n|---|---|---|\n", c.what)
		for _, f := range c.table {
			tables.WriteString(fieldtest.Row(f, f.Support))
		}
	}
	fieldtest.Document(t, "responses", "the table of responses", tables.String()+"\n")
}

// TestTypesOfTheReference checks that the tables have every type of item and tool of OpenAI's
// reference, as its official client knows them, and are sorted.
func TestTypesOfTheReference(t *testing.T) {
	for _, c := range []struct {
		union reflect.Type
		table []jsonbody.Field
	}{{reflect.TypeFor[responses.ResponseInputItemUnionParam](), itemTable},
		{reflect.TypeFor[responses.ToolUnionParam](), toolTable}} {
		count := 0
		for _, f := range reflect.VisibleFields(c.union) {
			kind, ok := typeTag(f.Type)
			if !ok {
				continue
			}
			if count++; row(c.table, kind).Name == "" {
				t.Errorf("%s: the table lacks %s", c.union.Name(), kind)
			}
		}
		if count < 12 {
			t.Errorf("%s has only %d types", c.union.Name(), count)
		}
		fieldtest.Sorted(t, c.table)
	}
}

// typeTag returns the value that the client sends as the type of a struct.
func typeTag(t reflect.Type) (kind string, ok bool) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return "", false
	}
	if f, has := t.Elem().FieldByName("Type"); has {
		kind = f.Tag.Get("default")
	}
	return kind, kind != ""
}
