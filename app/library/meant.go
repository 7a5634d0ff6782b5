package library

// The names by which clients ask for models.

import (
	"slices"
	"strings"
)

// maxPrefixes is how many parts before a slash are left out of a name at most.
const maxPrefixes = 4

// latest is the tag that Ollama adds to a name without one.
const latest = ":latest"

// Meant returns the models that a client may mean by a name. The first rule that finds any applies:
//
//   - The name is a model's ID, the ID of a copy, its name without the publisher, or an alias.
//   - It is one of these with ":latest", which Ollama's clients add, or without it: Ollama's own
//     models have it in their IDs.
//   - It is one of these after a provider such as "openai/", which LiteLLM's clients add, or after
//     another publisher.
//
// Case does not count. aliases returns the further names of the model with an ID; it may be nil. A
// model has those of its copies, too.
func Meant(models []Model, name string, aliases func(id string) []string) (meant []Model) {
	for _, spelling := range spellings(name) {
		for _, m := range models {
			same := func(alias string) bool { return strings.EqualFold(alias, spelling) }
			if m.HasName(spelling) || same(m.Name) ||
				slices.ContainsFunc(m.Aliases(aliases), same) {
				meant = append(meant, m)
			}
		}
		if meant != nil {
			return meant
		}
	}
	return nil
}

// Aliases returns the aliases of the model and its copies. of returns those of an ID; it may be
// nil.
func (m *Model) Aliases(of func(id string) []string) (all []string) {
	if of == nil {
		return nil
	}
	all = slices.Clone(of(m.ID))
	for _, id := range m.Copies {
		all = append(all, of(id)...)
	}
	return all
}

// spellings returns the name and what it may stand for.
func spellings(name string) (list []string) {
	for range maxPrefixes {
		list = append(list, name)
		if n := len(name) - len(latest); n > 0 && strings.EqualFold(name[n:], latest) {
			list = append(list, name[:n])
		} else if !strings.Contains(name, ":") {
			list = append(list, name+latest)
		}
		_, rest, ok := strings.Cut(name, "/")
		if !ok {
			break
		}
		name = rest
	}
	return list
}
