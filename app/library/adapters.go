package library

// Adapters: folders that mlx_lm.lora or PEFT has written. An adapter is listed beneath its model: a
// model of whose folder it is a part, or the one that its config names by folder, ID or name. One
// whose model is not here is listed with the reason why it is no model.

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/engine"
)

// Adapter is an adapter of a Model. Requests name it as the model's ID, a plus sign and Name.
type Adapter struct {
	Name      string // unique among the adapters of the model
	Dir       string
	Info      engine.AdapterInfo
	SizeBytes int64
	UpdatedAt time.Time // last change of its files
}

// adapterFolder is what a listing says of its adapter.
type adapterFolder struct {
	Adapter
	ok bool
}

// adapterAt returns the adapter in a folder that has no model.
func adapterAt(l *listing) (Adapter, bool) {
	found := once(l, "adapter", func() (a adapterFolder) {
		if l.hasFile(configName) || !slices.ContainsFunc(engine.AdapterFiles,
			func(name string) bool { return l.hasFile(name) }) {
			return a
		}
		info, err := engine.ReadAdapterInfo(l.real)
		if err != nil {
			return a
		}
		a.ok, a.Info, a.Dir, a.Name = true, info, l.path, filepath.Base(l.path)
		for _, name := range engine.AdapterFiles {
			if f, ok := l.file(name); ok {
				a.SizeBytes += max(f.size, 0)
				if f.changed.After(a.UpdatedAt) {
					a.UpdatedAt = f.changed
				}
			}
		}
		return a
	})
	return found.Adapter, found.ok
}

// isTraining reports whether a folder is that of a training that has not written an adapter yet:
// one that runs, or one that was stopped.
func isTraining(l *listing) bool {
	return l.hasFile(TrainingRecord) && !l.hasFile(configName) &&
		!slices.ContainsFunc(engine.AdapterFiles, l.hasFile)
}

// adaptersDir is the folder in which mlx_lm.lora writes, unless it is told another one.
const adaptersDir = "adapters"

// adaptersIn returns the adapters in the subfolders of a model's folder, and in those of adapters.
func (f *folders) adaptersIn(l *listing) (list []Adapter) {
	for _, name := range l.dirs {
		sub := f.sub(l, name)
		if a, ok := adapterAt(sub); ok {
			list = append(list, a)
		}
		if name != adaptersDir {
			continue
		}
		for _, name := range sub.dirs {
			if a, ok := adapterAt(f.sub(sub, name)); ok {
				list = append(list, a)
			}
		}
	}
	return list
}

// attach moves adapters from the list to their models. found has the folders of all models, by ID.
func (s *scanner) attach(models []Model, found []folder) []Model {
	at := make(map[string]*listing, len(found))
	for _, f := range found {
		at[f.name] = f.at
	}
	for i := range models {
		m := &models[i]
		if l := at[m.ID]; l != nil && m.State == Ready {
			for _, a := range s.folders.adaptersIn(l) {
				m.add(a)
			}
		}
	}
	moved := map[string]bool{} // removed only then: a removal shifts what baseOf searches
	for i := range models {
		m := &models[i]
		l := at[m.ID]
		if l == nil || m.State == Ready {
			continue
		}
		if a, ok := adapterAt(l); ok {
			if base := baseOf(models, a.Info.Base); base != nil {
				base.add(a)
				moved[m.ID] = true
			}
		}
	}
	return slices.DeleteFunc(models, func(m Model) bool { return moved[m.ID] })
}

// add adds an adapter to a model, under a name that no other one has.
func (m *Model) add(a Adapter) {
	taken := func(name string) bool {
		return slices.ContainsFunc(m.Adapters,
			func(other Adapter) bool { return strings.EqualFold(other.Name, name) })
	}
	if taken(a.Name) { // "adapters" is the name of many
		a.Name = filepath.Base(filepath.Dir(a.Dir)) + "-" + a.Name
	}
	if !taken(a.Name) {
		m.Adapters = append(m.Adapters, a)
	}
}

// baseOf returns the ready model that an adapter's config names, by its folder, its ID or its name;
// nil: it is none of models, or the name is that of several.
func baseOf(models []Model, base string) *Model {
	if base == "" {
		return nil
	}
	for _, same := range []func(m *Model) bool{
		func(m *Model) bool {
			return slices.ContainsFunc(m.Places, func(p Place) bool { return p.Dir == base })
		},
		func(m *Model) bool { return m.HasName(base) },
		func(m *Model) bool { return strings.EqualFold(m.Name, filepath.Base(base)) },
	} {
		var only *Model
		for i := range models {
			if m := &models[i]; m.State == Ready && same(m) {
				if only != nil {
					return nil
				}
				only = m
			}
		}
		if only != nil {
			return only
		}
	}
	return nil
}

// Adapter returns the adapter of m that a request names.
func (m *Model) Adapter(name string) (Adapter, bool) {
	for _, a := range m.Adapters {
		if strings.EqualFold(a.Name, name) {
			return a, true
		}
	}
	return Adapter{}, false
}
