package jsonbody

// What becomes of each field of a request. A field that would change the answer works or is refused
// by name, so that no client gets an answer that it did not ask for. Each dialect has a table of
// the fields of its API, with those that clients send to other servers. Fields that are not in it
// are ignored. Tests write the tables into engine/server/API.md; see package fieldtest.

import "headroom/engine/generate"

// Support says what becomes of a field.
type Support uint8

const (
	Unknown Support = iota // not a field of this route: ignored
	Works                  // does what its reference says, or what the note says
	Refused                // an error, unless the value is one of those that change nothing
	Inert                  // accepted and without effect: the answer would be the same
	LeftOut                // an item or a tool that the prompt does not have
)

// String returns the word that the tables in API.md have; "" for Unknown.
func (s Support) String() string {
	return [...]string{"", "works", "refused", "no effect", "left out"}[s]
}

// Field is a row of a table, for one route.
type Field struct {
	Name    string
	Support Support
	// Harmless are the JSON values of a refused field that change nothing; see OneOf. null is
	// always one.
	Harmless string
	// Note is for readers of the table, and Instead also for those of the error.
	Note, Instead string
}

// Refuse returns an error about the field at a path if it is refused and the value would change the
// answer.
func (f Field) Refuse(path string, value []byte) *Error {
	if f.Support != Refused || OneOf(value, f.Harmless) {
		return nil
	}
	text := "is not supported"
	if f.Instead != "" {
		text += ". " + f.Instead
	}
	return generate.Unsupported(path, "%s", text)
}

// FieldsByName has the rows of a table by name. The row of any other name is that of an unknown
// field.
type FieldsByName map[string]Field

// ByName returns the rows of a table by name.
func ByName(table []Field) FieldsByName {
	list := make(FieldsByName, len(table))
	for _, f := range table {
		list[f.Name] = f
	}
	return list
}

// Refuse returns the error of the first refused field of an object with a value that would change
// the answer. Check has accepted the object. Anything else than an object has no fields.
func (l FieldsByName) Refuse(object []byte) error {
	if object = Trimmed(object); object[0] != '{' {
		return nil // Decode reports it
	}
	err := Members(object, func(name string, value []byte) *Error {
		return l[name].Refuse(name, value)
	})
	if err != nil {
		return err
	}
	return nil
}
