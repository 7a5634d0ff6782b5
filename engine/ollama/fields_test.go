package ollama

import (
	"reflect"
	"strings"
	"testing"

	"headroom/engine/jsonbody"
	"headroom/engine/jsonbody/fieldtest"
)

func TestFieldsAreRead(t *testing.T) {
	fieldtest.Read(t, fieldsOf(field.ofChat), reflect.TypeFor[wireChat]())
	fieldtest.Read(t, fieldsOf(field.ofGenerate), reflect.TypeFor[wireGenerate]())
	fieldtest.Read(t, optionTable, reflect.TypeFor[wireOptions]())
	fieldtest.Sorted(t, fieldsOf(field.ofChat))
	fieldtest.Sorted(t, optionTable)
}

func TestOtherFields(t *testing.T) {
	for _, route := range []struct {
		table []jsonbody.Field
		parse func([]byte) (*Request, error)
		body  func(...string) string
	}{{fieldsOf(field.ofChat), ParseChat, chatBody},
		{fieldsOf(field.ofGenerate), ParseGenerate, generateBody}} {
		for prefix, table := range map[string][]jsonbody.Field{"": route.table,
			"options.": optionTable} {
			fieldtest.Others(t, table,
				func(member string) (*Request, error) {
					switch {
					case member == "":
					case prefix == "":
						member = "," + member
					default:
						member = `,"options":{` + member + `}`
					}
					return route.parse([]byte(route.body(member)))
				},
				func(f jsonbody.Field, err error) {
					checkError(t, f.Name, err, prefix+f.Name,
						strings.TrimSuffix("is not supported. "+f.Instead, ". "))
				})
		}
	}
}

// TestFieldTable checks that engine/server/API.md has the tables of fields as they are.
func TestFieldTable(t *testing.T) {
	tables := "\n| field | chat | generate | notes |\n|---|---|---|---|\n"
	for _, f := range fieldTable {
		tables += fieldtest.Row(f.ofChat(), f.chat, f.generate)
	}
	tables += "\n| in `options` | chat and generate | notes |\n|---|---|---|\n"
	for _, f := range optionTable {
		tables += fieldtest.Row(f, f.Support)
	}
	for _, route := range []struct {
		name  string
		table []jsonbody.Field
	}{{"/api/embed", embedFields}, {"/api/embeddings", embeddingsFields}} {
		tables += "\n| field | " + route.name + " | notes |\n|---|---|---|\n"
		for _, f := range route.table {
			tables += fieldtest.Row(f, f.Support)
		}
	}
	fieldtest.Document(t, "ollama", "the tables of Ollama's fields", tables+"\n")
}
