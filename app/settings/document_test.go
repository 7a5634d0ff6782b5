package settings

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocument: SETTINGS.md has exactly one row for each key of the file.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(
		string(text), -1) {
		documented = append(documented, row[1])
	}
	var keys []string
	for _, s := range []reflect.Type{reflect.TypeFor[Settings](), reflect.TypeFor[Cache](),
		reflect.TypeFor[Model]()} {
		for i := range s.NumField() {
			if key, _, _ := strings.Cut(s.Field(i).Tag.Get("json"), ","); s.Field(i).IsExported() {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(documented)
	slices.Sort(keys)
	if !slices.Equal(documented, keys) {
		t.Errorf("SETTINGS.md has the keys\n%v\nand the file\n%v", documented, keys)
	}
}
