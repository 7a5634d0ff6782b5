package importer

// Importing a GGUF file, or packing a model in another way: it is converted into the unfinished
// folder, which is then renamed to the target. The file or the model stays where it is.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// PlanConversion returns the plan of packing a model in another way: its folder, or the name of the
// bundled one. The model stays. name is that of the result; "": one that says the packing.
func (i *Importer) PlanConversion(model, name string, packing Packing) Plan {
	item := Item{Source: model, Converts: true, Packing: &packing}
	m, err := i.library().Resolve(model)
	if err == nil && m.GGUF {
		err = refusal("This is a GGUF file", "it is packed as it is", "Import it first.")
	}
	if err == nil {
		item.model = m.Source
		if item.Name = m.ID; len(m.Places) > 0 {
			item.Name = m.Places[0].ID
		}
		item.Name += "-" + packing.suffix()
		if real, failed := filepath.EvalSymlinks(m.Dir); failed == nil && m.Dir != "" {
			item.Source = real
		}
		item.Bytes, err = convert.Plan(m.Source, packing.options())
	}
	item.Refused = err
	return i.completed(Plan{Mode: Copy, Root: i.options.Root, FreeBytes: -1, Items: []Item{item}},
		name)
}

// suffix ends the name of the result, as on the hub: "4bit", or the mode.
func (p Packing) suffix() string {
	if p.Mode == "" || p.Mode == "affine" {
		return fmt.Sprintf("%dbit", cmp.Or(p.Bits, 4))
	}
	return p.Mode
}

func (p Packing) options() convert.Options {
	return convert.Options{Quantize: true, Mode: p.Mode, Bits: p.Bits, Group: p.Group}
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
	o := convert.Options{}
	if item.Packing != nil {
		o = item.Packing.options()
	}
	o.Progress = func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if done > counted { // calls may come in another order
			p.Total(total)
			p.Add(done - counted)
			counted = done
		}
	}
	o.Verify = func(string) error {
		_, err := i.library().Resolve(dir)
		if _, exists := os.Lstat(item.Target); exists == nil {
			err = fs.ErrExist
		}
		if err != nil {
			return &refusedError{err}
		}
		return nil
	}
	var err error
	if item.Packing != nil {
		_, err = convert.Run(ctx, item.model, dir, o)
	} else {
		_, err = convert.RunGGUF(ctx, item.Source, dir, o)
	}
	return err
}
