package decisions

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestFieldsAreRead(t *testing.T) {
	fieldtest.Read(t, fieldTable, reflect.TypeFor[wireRequest]())
	fieldtest.Read(t, systemOneTable, reflect.TypeFor[wireSystemOne]())
	fieldtest.Sorted(t, fieldTable)
	fieldtest.Sorted(t, systemOneTable)
}

func TestFieldsOfTheReference(t *testing.T) {
	fieldtest.Client(t, fieldTable, reflect.TypeFor[openai.DecisionNewParams](), 6)
}

func TestOtherFields(t *testing.T) {
	for _, c := range []struct {
		table []jsonbody.Field
		parse func([]byte) (*Request, error)
		with  func(string) string
	}{{fieldTable, Parse, withParams}, {systemOneTable, ParseSystemOne, withNamed}} {
		fieldtest.Others(t, c.table,
			func(member string) (*Request, error) { return c.parse([]byte(c.with(member))) },
			func(f jsonbody.Field, err error) {
				checkError(t, f.Name, err, f.Name,
					strings.TrimSuffix("is not supported. "+f.Instead, ". "))
			})
	}
}

// TestFieldTable checks that engine/server/API.md has the tables as they are.
func TestFieldTable(t *testing.T) {
	var tables strings.Builder
	for _, c := range []struct {
		route string
		table []jsonbody.Field
	}{{"decisions", fieldTable}, {"systemone", systemOneTable}} {
		fmt.Fprintf(&tables, "\n| field | %s | notes |\n|---|---|---|\n", c.route)
		for _, f := range c.table {
			tables.WriteString(fieldtest.Row(f, f.Support))
		}
	}
	fieldtest.Document(t, "decisions", "the table of decisions", tables.String()+"\n")
}
