package importer

// Importing an item into the root.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"headroom/app/disk"
	"headroom/app/jobs"
	"headroom/engine/convert"
	"headroom/engine/problem"
)

// minFreeBytes is the disk space that an import leaves free.
const minFreeBytes = 1 << 30

// Memo is the memo of an import's job (jobs.Spec), from which Recreate makes the job again.
type Memo struct {
	Source string `json:"source"`
	Target string `json:"goal"`
	Name   string `json:"name"`
	Mode   Mode   `json:"mode"`
	// Converts is that of the Item.
	Converts bool     `json:"converts,omitempty"`
	Packing  *Packing `json:"packing,omitempty"`
}

// Job returns the job of an import. Its memo is a Memo as JSON.
func (i *Importer) Job(item Item) jobs.Spec {
	memo, err := json.Marshal(Memo{item.Source, item.Target, item.Name, item.Mode, item.Converts,
		item.Packing})
	if err != nil {
		panic("importer: a memo as JSON: " + err.Error()) // cannot happen for strings
	}
	return jobs.Spec{
		Kind: jobs.Import, Key: item.Source + "\x00" + item.Target, Title: item.Name,
		TotalBytes: item.Bytes, Memo: memo,
		Work: func(ctx context.Context, p *jobs.Progress) (string, error) {
			return i.Import(ctx, item, p)
		},
		Discard: func() error { return i.Discard(item) },
	}
}

// Recreate returns the job of an import that an earlier run of the program left unfinished. It
// reads the source only when the job resumes, because its disk may not be connected now.
func (i *Importer) Recreate(m Memo) jobs.Spec {
	item := Item{Source: m.Source, Target: m.Target, Name: m.Name, Mode: m.Mode,
		Converts: m.Converts, Packing: m.Packing}
	s := i.Job(item)
	s.Work = func(ctx context.Context, p *jobs.Progress) (string, error) {
		plan := i.Plan([]string{m.Source}, m.Mode, m.Name)
		if m.Packing != nil {
			plan = i.PlanConversion(m.Source, m.Name, *m.Packing)
		}
		items := plan.Items
		if len(items) != 1 {
			return "", problem.New(problem.NotFound,
				"The model in "+shown(m.Source)+" has changed", "", "Import it again.")
		}
		p.Total(items[0].Bytes)
		return i.Import(ctx, items[0], p)
	}
	return s
}

// Import imports an item of a Plan and returns the model's new folder. A copy that is stopped stays
// beside its target until the next Import of the same item, or Discard. The error is a Problem, or
// ctx's.
func (i *Importer) Import(ctx context.Context, item Item, p *jobs.Progress) (dir string,
	failed error) {
	if item.Refused != nil {
		return "", item.Refused
	}
	parent := filepath.Dir(item.Target)
	_, err := os.Lstat(parent)
	if errors.Is(err, fs.ErrNotExist) && parent != filepath.Clean(i.options.Root) {
		defer func() {
			if failed != nil {
				removeFolder(parent) // the publisher's
			}
		}()
	}
	if err = os.MkdirAll(parent, 0o755); err != nil {
		return "", problem.Wrap(problem.Internal, err, "The folder for models cannot be created",
			"Choose another folder, or check its permissions.")
	}
	switch {
	case item.Converts:
		err = i.convert(ctx, item, p)
	case item.Mode == Link:
		err = os.Symlink(item.Source, item.Target)
	case item.Mode == Move && disk.SameDisk(item.Source, parent):
		if err = disk.Rename(item.Source, item.Target); errors.Is(err, syscall.EXDEV) {
			// The same disk, mounted twice.
			err = i.copy(ctx, item, p)
		}
	default:
		err = i.copy(ctx, item, p)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return "", problem.New(problem.Exists, shown(item.Target)+" already exists",
			"it was created during the import", "Import the model under another name.")
	case disk.IsFull(err):
		return "", diskFull(item, err)
	case err != nil:
		return "", err
	}
	disk.SyncDir(parent)
	return item.Target, nil
}

func diskFull(item Item, err error) error {
	return problem.Wrap(problem.DiskFull, err, "The disk is full",
		"Free some space, then resume: the copied part of "+item.Name+" is kept.")
}

// unfinished returns the hidden folder of an unfinished copy, beside its target. The same source
// and target always have the same folder.
func unfinished(item Item) string {
	sum := sha256.Sum256([]byte(item.Source + "\x00" + item.Target))
	return filepath.Join(filepath.Dir(item.Target), ".headroom-import-"+hex.EncodeToString(sum[:6]))
}

// Discard removes what a stopped import of the item has left behind.
func (i *Importer) Discard(item Item) error {
	dir := unfinished(item)
	if item.Converts {
		return convert.Discard(dir)
	}
	j, err := openJournal(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, disk.ErrLocked):
		return problem.Wrap(problem.Busy, err, item.Name+" is already being imported",
			"Stop it first.")
	case err == nil:
		defer j.close()
		err = j.discard()
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err,
			"The unfinished copy of "+item.Name+" could not be removed", "Remove "+dir+" by hand.")
	}
	return nil
}

// refusedError is the error of a copy that no later import completes. An import under another name
// has another unfinished folder, so nothing but Discard would ever remove this one.
type refusedError struct{ cause error }

func (e *refusedError) Error() string { return e.cause.Error() }

// copy copies the files into the unfinished folder, verifies the model there, and renames the
// folder to the target. The folder stays if a later import can resume the copy.
func (i *Importer) copy(ctx context.Context, item Item, p *jobs.Progress) (err error) {
	dir := unfinished(item)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	j, err := openJournal(dir)
	if errors.Is(err, disk.ErrLocked) {
		return problem.Wrap(problem.Busy, err, item.Name+" is already being imported",
			"Wait for that import.")
	}
	if err != nil {
		return err
	}
	defer j.close()
	defer func() {
		var refused *refusedError
		if final := errors.As(err, &refused); final || err != nil && !j.hasFiles() {
			// There is nothing to resume, or to resume from.
			if final {
				err = refused.cause
			}
			if left := j.discard(); left != nil {
				err = errors.Join(err, left)
			}
		}
	}()
	left := j.missing(item.files)
	p.Found(item.Bytes - sizeOf(left))
	if left, err = i.cloneAll(ctx, left, j, p); err != nil {
		return err
	}
	if err := checkSpace(item, dir, sizeOf(left)); err != nil {
		return err
	}
	for _, f := range left {
		if err := i.copyFile(ctx, f, j, p); err != nil {
			return err
		}
	}
	p.Phase("checking", "")
	if err := unchanged(item.files); err != nil {
		return err
	}
	if err := j.prune(item.files); err != nil {
		return err
	}
	if _, err := i.library().Resolve(dir); err != nil {
		return &refusedError{err}
	}
	disk.SyncDir(dir)
	if err := disk.Rename(dir, item.Target); errors.Is(err, fs.ErrExist) {
		return &refusedError{err}
	} else if err != nil {
		return err
	}
	j.end() // not before: without a journal, the files of a killed import belong to nobody
	if item.Mode == Move {
		return removeOriginal(item)
	}
	return nil
}

func sizeOf(files []source) int64 {
	bytes := int64(0)
	for _, f := range files {
		bytes += f.size
	}
	return bytes
}

// checkSpace checks that the disk has space for this many bytes of a copy.
func checkSpace(item Item, dir string, bytes int64) error {
	free, err := disk.FreeBytes(dir)
	if err != nil || bytes == 0 || free-bytes >= minFreeBytes {
		return nil
	}
	return problem.New(problem.DiskFull, "There is not enough space for a copy of "+item.Name,
		fmt.Sprintf("%.1f GB are needed, %.1f GB are free on the disk, and 1 GB stays free",
			float64(bytes)/1e9, float64(free)/1e9),
		"Free some space, or link the model instead, which copies nothing.")
}

// unchanged checks that the originals have not changed since the Plan.
func unchanged(files []source) error {
	for _, f := range files {
		if !f.unchanged() {
			return problem.New(problem.ModelBroken, "The model changed while it was copied",
				shown(f.rel)+" has another size or date",
				"Import it again when nothing writes to it.")
		}
	}
	return nil
}

// unchanged reports whether the file still has the size and date of the Plan.
func (f source) unchanged() bool {
	info, err := os.Lstat(f.path)
	return err == nil && info.Mode().IsRegular() && info.Size() == f.size &&
		info.ModTime().Equal(f.changed)
}

// prune removes the copies of files that the model no longer has.
func (j *journal) prune(files []source) error {
	wanted := map[string]bool{}
	for _, f := range files {
		wanted[f.rel] = true
	}
	for rel := range j.ours {
		if !wanted[rel] {
			if err := j.remove(rel); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeOriginal removes the originals of the copied files, then the folders that are empty. It
// keeps other files, and files that have changed since they were copied.
func removeOriginal(item Item) error {
	dirs := map[string]bool{}
	for _, f := range item.files {
		if !f.unchanged() {
			return problem.New(problem.ModelBroken,
				"The model was copied, but its original was not removed",
				shown(f.rel)+" has changed since", "Compare the folders, and remove one by hand.")
		}
		if err := os.Remove(filepath.Join(item.Source, f.rel)); err != nil {
			return problem.Wrap(problem.Internal, err,
				"The model was copied, but its original could not be removed",
				"Remove "+shown(item.Source)+" by hand.")
		}
		for dir := filepath.Dir(f.rel); !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for depth := maxDepth; depth >= 0; depth-- {
		// The deepest first.
		for dir := range dirs {
			if dir != "." && depthOf(dir) == depth {
				removeFolder(filepath.Join(item.Source, dir))
			}
		}
	}
	removeFolder(item.Source)
	return nil
}

// removeFolder removes a folder if it is empty. A link to a folder stays.
func removeFolder(path string) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		_ = os.Remove(path) // fails for a folder that is not empty
	}
}

func depthOf(rel string) int {
	n := 0
	for ; rel != "."; rel = filepath.Dir(rel) {
		n++
	}
	return n
}
