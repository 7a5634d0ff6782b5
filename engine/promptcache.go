package engine

// Prompt caches as files; see engine/promptfile. A file is used only by a model with the same
// weights, the same formats of the cache and the same arithmetic, so that an answer after it has
// the bits of one whose whole prompt was computed.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headroom/app/disk"
	"headroom/engine/blockstore"
	"headroom/engine/loop"
	"headroom/engine/problem"
	"headroom/engine/promptfile"
)

// PromptCache describes a prompt cache in a file, and PromptFile is an open one.
type (
	PromptCache = promptfile.Info
	PromptFile  = promptfile.File
)

// SavePrompt writes the cached keys, values and states of tokens to a file, and returns its size. A
// request must have computed the tokens. Of the description it takes Continues and Options. replace
// is as for promptfile.Write. It needs Options.PromptCaches or a BlockStore. Errors are Problems.
func (e *Engine) SavePrompt(ctx context.Context, path string, replace bool, tokens []int32,
	d PromptCache) (bytes int64, err error) {
	if err := e.CheckPromptCaches(); err != nil {
		return 0, err
	}
	d.Model, d.Computation, d.Created = e.storedModel(), e.computation(), time.Now()
	d.Title = e.Title(tokens)
	err = e.loop.SavePrompt(tokens, func(c promptfile.Content) (err error) {
		c.Info = d
		bytes, err = promptfile.Write(ctx, path, replace, c)
		return err
	})
	return bytes, PromptFileProblem(err, path)
}

// LoadPrompt reads a prompt cache into memory, so that a request that begins with its tokens
// resumes after them. path is for errors, which are Problems. A file of another model or format is
// refused.
func (e *Engine) LoadPrompt(ctx context.Context, f *PromptFile, path string) error {
	if err := e.CheckPromptCaches(); err != nil {
		return err
	}
	if why, fix := e.mismatch(f.Info()); why != "" {
		return problem.New(problem.BadRequest,
			"The prompt cache "+path+" cannot be used with this model", why, fix)
	}
	return PromptFileProblem(e.loop.LoadPrompt(ctx, f), path)
}

// CheckPromptCaches returns a Problem unless the engine can save and load prompt caches.
func (e *Engine) CheckPromptCaches() error {
	why := ""
	switch {
	case e.plan.Spec.Vectors != nil:
		why = "the model computes vectors or scores and continues no prompt"
	case e.plan.NoPrefixCache:
		why = "the prefix cache is off"
	case e.weights.Fingerprint() == "":
		why = "the weights are random"
	case e.options.Adapter != nil:
		why = "a prompt cache holds what a model computes without an adapter, and it is loaded " +
			"with " + e.options.Adapter.Name
	case !e.unchanged():
		why = "the model's files have changed since it was loaded"
	default:
		return nil
	}
	return problem.New(problem.BadRequest, "There are no prompt caches for this model", why, "")
}

// computation says how keys and values are computed, as far as their bits depend on it.
func (e *Engine) computation() string {
	activations := "8-bit activations"
	if e.options.Float32Activations || e.device.Kind() != DeviceCPU {
		activations = "float activations"
	}
	return fmt.Sprintf("on %s with %s and arithmetic %d", e.device.Kind(), activations, numerics)
}

// mismatch returns why a prompt cache belongs to another model or format, and what to do; "" if it
// belongs to this one.
func (e *Engine) mismatch(d PromptCache) (why, fix string) {
	mine := e.storedModel()
	readable := func(format string) string {
		text, _, _ := strings.Cut(format, " #")
		return text
	}
	switch theirs := d.Model; {
	case theirs.Fingerprint != mine.Fingerprint:
		why = fmt.Sprintf("it was computed by %.200s with the weights %.12s, and the weights of "+
			"%s are %.12s", theirs.Name, theirs.Fingerprint, mine.Name, mine.Fingerprint)
		return why, "Use the model that it was made with, or save the prompt again."
	case readable(theirs.Format) != readable(mine.Format):
		why = fmt.Sprintf("its cache has the format %.200s, and the model is loaded with %s",
			readable(theirs.Format), readable(mine.Format))
		return why, "Load the model with the same --kv-format, --kv-bits and other flags of the " +
			"cache, or save the prompt again."
	case d.Computation != "" && d.Computation != e.computation():
		why = fmt.Sprintf("it was computed %.200s, and the model now computes %s", d.Computation,
			e.computation())
		return why, "Load the model as it was, or save the prompt again."
	case theirs.Format != mine.Format:
		return "it has other layers, windows or arithmetic than the model has with these options",
			"Load the model with the same --max-kv-size, --quantized-kv-start and --speculate, " +
				"and on the same kind of device, or save the prompt again."
	}
	return "", ""
}

// PromptFileProblem returns the Problem of an error of a prompt cache at path. nil stays nil, and
// so do Problems and the end of a context.
func PromptFileProblem(err error, path string) error {
	known := (*problem.Problem)(nil)
	again := "Save the prompt again, or copy the file again."
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, promptfile.ErrForeign):
		return problem.New(problem.BadRequest, path+" is not a prompt cache", reason(err, path,
			promptfile.ErrForeign), "Name a file that `headroom cache save` or `headroom cache "+
			"export` of this version has written.")
	case errors.Is(err, promptfile.ErrDamaged):
		return problem.New(problem.BadRequest, "The prompt cache "+path+" is damaged",
			reason(err, path, promptfile.ErrDamaged), again)
	case errors.Is(err, promptfile.ErrExists):
		return problem.New(problem.Exists, path+" exists and is not a prompt cache", "",
			"Name another file, or add --force to replace it.")
	case errors.Is(err, loop.ErrNoRoom):
		return problem.New(problem.DoesNotFit, "The prompt cache does not fit in memory",
			"its tokens need more pages than the model may use now",
			"Close other apps, or load the model with a larger --context.")
	case errors.Is(err, loop.ErrNotCached):
		return problem.New(problem.DoesNotFit, "The prompt could not be kept in memory", "",
			"Close other apps, or load the model with a larger --context.")
	case errors.Is(err, blockstore.ErrDamaged), errors.Is(err, blockstore.ErrIncomplete):
		return problem.Wrap(problem.NotFound, err, "A part of the conversation is gone", "")
	case disk.IsFull(err):
		return problem.Wrap(problem.BadRequest, err, "The disk is full",
			"Free some space, or choose another disk.")
	case errors.Is(err, fs.ErrNotExist):
		if dir := filepath.Dir(path); !isFolder(dir) {
			return problem.New(problem.NotFound, "There is no folder "+dir, "", "Check the path.")
		}
		return problem.New(problem.NotFound, "There is no file "+path, "", "Check the path.")
	}
	return problem.Wrap(problem.Internal, err, "The prompt cache cannot be read or written", "")
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// reason returns what an error says beyond the path and the sentinel.
func reason(err error, path string, sentinel error) string {
	text := strings.ReplaceAll(err.Error(), path+": ", "")
	return strings.TrimPrefix(strings.ReplaceAll(text, sentinel.Error()+": ", ""), ": ")
}
