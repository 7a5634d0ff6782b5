package library

import "slices"

// ChangeKind is the kind of a Change.
type ChangeKind string

// The kinds of changes.
const (
	Appeared ChangeKind = "appeared"
	Changed  ChangeKind = "changed"  // its state, size, places or download progress
	Finished ChangeKind = "finished" // it has become ready
	Vanished ChangeKind = "vanished"
)

// Change is a difference between two lists. Model is the new entry, or the old one if it vanished.
type Change struct {
	Kind  ChangeKind
	Model Model
}

// Changes returns the differences in the order of the new list, then vanished models. It ignores
// the memory that a model needs, because that varies with the free memory.
func Changes(before, after []Model) []Change {
	old := make(map[string]*Model, len(before))
	for i := range before {
		old[before[i].ID] = &before[i]
	}
	var changes []Change
	for i := range after {
		now := &after[i]
		then := old[now.ID]
		delete(old, now.ID)
		switch {
		case then == nil:
			changes = append(changes, Change{Appeared, *now})
		case then.State != Ready && now.State == Ready:
			changes = append(changes, Change{Finished, *now})
		case !same(then, now):
			changes = append(changes, Change{Changed, *now})
		}
	}
	for _, then := range before {
		if old[then.ID] != nil {
			changes = append(changes, Change{Vanished, then})
		}
	}
	return changes
}

func same(a, b *Model) bool {
	return a.State == b.State && a.Dir == b.Dir && a.SizeBytes == b.SizeBytes &&
		a.UpdatedAt.Equal(b.UpdatedAt) && text(a.Err) == text(b.Err) &&
		slices.Equal(a.Places, b.Places) && slices.Equal(a.Copies, b.Copies) &&
		slices.Equal(a.Adapters, b.Adapters) && sameDownload(a.Download, b.Download) &&
		a.Description.Architecture == b.Description.Architecture &&
		a.Description.Quantization == b.Description.Quantization
}

func sameDownload(a, b *Download) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.DoneBytes == b.DoneBytes && a.TotalBytes == b.TotalBytes &&
		slices.Equal(a.Missing, b.Missing) && slices.Equal(a.Parts, b.Parts)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
