package library

// The names by which clients ask for models. A name means the same model in every list and request:
// Meant decides, by the names and the state of the models alone, not by what is loaded or was used.

import (
	"fmt"
	"slices"
	"strings"
)

// maxPrefixes is how many parts before a slash are left out of a name at most.
const maxPrefixes = 4

// latest is the tag that Ollama adds to a name without one.
const latest = ":latest"

// Meant returns the models that a client may mean by a name, the one that it gets first. aliases
// returns the further names of the model with an ID; it may be nil. A model has those of its
// copies, too. The first rule that finds any applies:
//
//   - The name is a model's ID.
//   - It is the ID of a model or a copy, if case does not count.
//   - It is a model's name without the publisher.
//   - It is an alias. So an alias that is the ID or the name of another model has no effect.
//   - One of these rules finds a model without a provider such as "openai/", which LiteLLM's
//     clients add, or without another publisher, in front of the name.
//
// All but the first also compare the name with ":latest", which Ollama's clients add, and without:
// Ollama's own models have it in their IDs. Of several models, those that are ready come first,
// then those that come first in the list. A model that cannot run here is meant only if no other
// one is.
func Meant(models []Model, name string, aliases func(id string) []string) (meant []Model) {
	for _, foreign := range []bool{false, true} {
		for _, s := range spellings(name) {
			for _, fits := range rules(s, aliases) {
				for i := range models {
					if m := &models[i]; m.State.IsNoModel() == foreign && fits(m) {
						meant = append(meant, *m)
					}
				}
				if meant != nil {
					slices.SortStableFunc(meant, readyFirst)
					return meant
				}
			}
		}
	}
	return nil
}

// rules returns the rules for a spelling that Meant applies in turn.
func rules(s spelling, aliases func(id string) []string) []func(*Model) bool {
	isAlias := func(of *Model, name string) bool {
		return slices.ContainsFunc(of.Aliases(aliases),
			func(alias string) bool { return strings.EqualFold(alias, name) })
	}
	return []func(*Model) bool{
		func(m *Model) bool { return m.ID == s.name },
		func(m *Model) bool { return m.HasName(s.name) },
		func(m *Model) bool { return m.HasName(s.tagged) },
		func(m *Model) bool { return strings.EqualFold(m.Name, s.name) },
		func(m *Model) bool { return strings.EqualFold(m.Name, s.tagged) },
		func(m *Model) bool { return isAlias(m, s.name) },
		func(m *Model) bool { return isAlias(m, s.tagged) },
	}
}

func readyFirst(a, b Model) int {
	switch {
	case (a.Err == nil) == (b.Err == nil):
		return 0
	case a.Err == nil:
		return -1
	}
	return 1
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

// WithoutEffect returns a sentence about each alias by which a request gets another model than the
// one that has it.
func WithoutEffect(models []Model, aliases func(id string) []string) (list []string) {
	for i := range models {
		m := &models[i]
		for _, alias := range m.Aliases(aliases) {
			got := Meant(models, alias, aliases)[0]
			if got.ID == m.ID && got.Dir == m.Dir {
				continue
			}
			why := "which has it, too"
			if got.hasOwn(alias) {
				why = "whose name it is"
			}
			list = append(list, fmt.Sprintf("%q of %s means %s, %s", alias, m.ID, got.ID, why))
		}
	}
	return list
}

// hasOwn reports whether a name is one of the model that is no alias.
func (m *Model) hasOwn(name string) bool {
	for _, s := range spellings(name) {
		for _, one := range []string{s.name, s.tagged} {
			if m.HasName(one) || strings.EqualFold(m.Name, one) {
				return true
			}
		}
	}
	return false
}

// spelling is a name, and the same with ":latest" or without it.
type spelling struct{ name, tagged string }

// spellings returns the name and what it may stand for.
func spellings(name string) (list []spelling) {
	for range maxPrefixes {
		s := spelling{name, name}
		if n := len(name) - len(latest); n > 0 && strings.EqualFold(name[n:], latest) {
			s.tagged = name[:n]
		} else if !strings.Contains(name, ":") {
			s.tagged += latest
		}
		list = append(list, s)
		_, rest, ok := strings.Cut(name, "/")
		if !ok {
			break
		}
		name = rest
	}
	return list
}
