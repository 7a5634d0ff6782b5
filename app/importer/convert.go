package importer

// Importing a GGUF file: it is converted into the unfinished folder, which is then renamed to the
// target. The file stays where it is.

import (
	"context"
	"errors"
	"io/fs"
	"os"
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
	item := Item{Name: name, Source: path, Converts: true}
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
		return Item{Name: name, Source: m.Dir, Bytes: m.SizeBytes, Converts: true,
			Refused: problem.Wrap(problem.BadRequest, err, "This folder has several models",
				"Choose one of the files.")}, true
	case path == "":
		return item, false
	}
	return ggufItem(name, path), true
}

// convert converts a file and moves the result to its target. A conversion that is stopped stays
// beside it, and goes on later, unless the file has changed.
func (i *Importer) convert(ctx context.Context, item Item, p *jobs.Progress) error {
	dir := unfinished(item)
	if m, err := i.library().Resolve(dir); err != nil || m.Dir == "" { // or else it is complete
		p.Phase("converting", "")
		err := i.convertInto(ctx, dir, item, p)
		if problem.From(err).Code == problem.Exists && convert.Discard(dir) == nil {
			err = i.convertInto(ctx, dir, item, p) // an earlier run had another version of the file
		}
		var refused *refusedError
		if errors.As(err, &refused) {
			return errors.Join(refused.cause, convert.Discard(dir))
		}
		if err != nil {
			return err
		}
	}
	return disk.Rename(dir, item.Target)
}

// convertInto converts a file into a folder. The error is a refusedError if no later import would
// end otherwise.
func (i *Importer) convertInto(ctx context.Context, dir string, item Item,
	p *jobs.Progress) error {
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
		},
		Verify: func(string) error {
			_, err := i.library().Resolve(dir)
			if _, exists := os.Lstat(item.Target); exists == nil {
				err = fs.ErrExist
			}
			if err != nil {
				return &refusedError{err}
			}
			return nil
		}})
	return err
}
