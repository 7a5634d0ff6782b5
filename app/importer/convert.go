package importer

// Importing a GGUF file: it is converted into the unfinished folder, which is then renamed to the
// target. The file stays where it is.

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"headroom/app/disk"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/engine/convert"
	"headroom/engine/gguf"
	"headroom/engine/problem"
)

// ggufItem returns the item of a GGUF file. Bytes and Refused follow from what it would become.
func ggufItem(name, path string) Item {
	item := Item{Name: name, Source: path, Mode: Convert}
	if real, err := filepath.EvalSymlinks(path); err == nil && gguf.IsFile(real) {
		item.Source = real // not that of a blob, whose name says nothing of other files
	}
	item.Bytes, item.Refused = convert.PlanGGUF(item.Source)
	return item
}

// convertible returns the item of a model that the list shows as a GGUF file, or as a folder of
// such files. ok is false for all others.
func convertible(m library.Model) (item Item, ok bool) {
	if !m.GGUF {
		return item, false
	}
	name := m.ID
	if len(m.Places) > 0 {
		name = m.Places[0].ID
	}
	path, err := gguf.In(m.Dir)
	switch {
	case err != nil:
		return Item{Name: name, Source: m.Dir, Bytes: m.SizeBytes, Mode: Convert,
			Refused: problem.Wrap(problem.BadRequest, err, "This folder has several models",
				"Choose one of the files.")}, true
	case path == "":
		return item, false
	}
	return ggufItem(name, path), true
}

// convert converts a file and moves the result to its target. A conversion that is stopped stays
// beside it, and goes on later.
func (i *Importer) convert(ctx context.Context, item Item, p *jobs.Progress) error {
	dir := unfinished(item)
	if done, err := i.library().Resolve(dir); err == nil && done.Dir != "" {
		// It was complete, but never moved to its target. The file may have changed since.
		if err := convert.Discard(dir); err != nil {
			return err
		}
	}
	p.Phase("converting", "")
	var mu sync.Mutex
	var counted int64
	_, err := convert.RunGGUF(ctx, item.Source, dir, convert.Options{
		Progress: func(done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			if done > counted { // calls may come in another order
				p.Total(total)
				p.Add(done - counted)
				counted = done
			}
		}})
	if err != nil {
		return err
	}
	if _, err := i.library().Resolve(dir); err != nil {
		return errors.Join(err, convert.Discard(dir))
	}
	disk.SyncDir(dir)
	if err := disk.Rename(dir, item.Target); errors.Is(err, fs.ErrExist) {
		return errors.Join(err, convert.Discard(dir))
	} else if err != nil {
		return err
	}
	return nil
}
