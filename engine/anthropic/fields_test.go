package anthropic

import (
	"reflect"
	"strings"
	"testing"

	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestFieldsAreRead(t *testing.T) {
	fieldtest.Read(t, fieldTable, reflect.TypeFor[wireRequest]())
	fieldtest.Sorted(t, fieldTable)
}

func TestOtherFields(t *testing.T) {
	fieldtest.Others(t, fieldTable,
		func(member string) (*Request, error) { return Parse([]byte(withParams(member))) },
		func(f jsonbody.Field, err error) {
			checkError(t, err, f.Name, strings.TrimSuffix("is not supported. "+f.Instead, ". "))
		})
}

// TestFieldTable checks that engine/server/API.md has the table of fields as it is.
func TestFieldTable(t *testing.T) {
	table := "\n| field | messages | notes |\n|---|---|---|\n"
	for _, f := range fieldTable {
		table += fieldtest.Row(f, f.Support)
	}
	fieldtest.Document(t, "anthropic", "the table of messages", table+"\n")
}
