package train

// A single file as the data of a training. mlx-lm reads a folder, so each run makes one for the
// time of the run. Each tenth sample is for the validation: without one, nothing shows when the
// adapter only learns the samples by heart. The choice depends on the line alone, so a training
// that goes on after a pause validates with the same samples.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"headroom/engine/textproc"
)

// splitEvery is the share of the validation: one line of so many.
const splitEvery = 10

func isValidation(line int) bool { return line%splitEvery == 0 }
func isTraining(line int) bool   { return !isValidation(line) }

// splits reports whether a file with so many lines is split. mlx-lm needs a batch of each set.
func splits(lines, batchSize int) bool { return lines/splitEvery >= batchSize }

// readSplit reads and checks a single file.
func readSplit(ctx context.Context, path string, p *textproc.Processor, o *Options) (Data, error) {
	var d Data
	lines, err := countLines(path)
	if err != nil {
		return d, dataProblem(ctx, err)
	}
	train := isTraining
	if !splits(lines, o.BatchSize) {
		train = nil
	}
	name := filepath.Base(path)
	if d.Train, err = readFile(ctx, path, train, p, o); err == nil && train != nil {
		d.Valid, err = readFile(ctx, path, isValidation, p, o)
	}
	for _, set := range []*Set{d.Train, d.Valid} {
		if set != nil {
			set.Name = name
		}
	}
	if err != nil {
		return d, dataProblem(ctx, err)
	}
	return d, d.check(path, o)
}

func countLines(path string) (n int, err error) {
	f, err := openFile(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := linesOf(f)
	for lines.Scan() {
		n++
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return 0, fmt.Errorf("%s:%d: the line is longer than %d bytes", path, n+1, maxLine)
	}
	return n, lines.Err()
}

// folderOfRun is how the name of a run's folder begins.
const folderOfRun = "headroom-data-"

// dataFolder returns the folder that mlx-lm reads: data itself, or for a single file a new folder
// in temp, Environment.Temp. The caller holds the lock of the environment. done removes what was
// made.
func dataFolder(data, temp string, o *Options) (dir string, done func(), err error) {
	info, err := os.Stat(data)
	if err != nil {
		return "", nil, dataProblem(context.Background(), err)
	}
	if info.IsDir() {
		return data, func() {}, nil
	}
	lines, err := countLines(data)
	if err != nil {
		return "", nil, dataProblem(context.Background(), err)
	}
	// A program that was killed has left its folder.
	stale, _ := filepath.Glob(filepath.Join(temp, folderOfRun+"*"))
	for _, old := range stale {
		_ = os.RemoveAll(old)
	}
	if dir, err = os.MkdirTemp(temp, folderOfRun); err != nil {
		return "", nil, environmentProblem(err)
	}
	done = func() { _ = os.RemoveAll(dir) }
	if splits(lines, o.BatchSize) {
		err = errors.Join(copyLines(data, filepath.Join(dir, "train.jsonl"), isTraining),
			copyLines(data, filepath.Join(dir, "valid.jsonl"), isValidation))
	} else {
		err = copyLines(data, filepath.Join(dir, "train.jsonl"), nil)
	}
	if err != nil {
		done()
		return "", nil, dataProblem(context.Background(), err)
	}
	return dir, done, nil
}

// copyLines copies the lines of a file that belong to a set, all if belongs is nil.
func copyLines(from, to string, belongs func(line int) bool) (err error) {
	in, err := openFile(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriter(out)
	lines := linesOf(in)
	for line := 1; lines.Scan(); line++ {
		if belongs == nil || belongs(line) {
			_, _ = w.Write(lines.Bytes()) // Flush returns the first error
			_ = w.WriteByte('\n')
		}
	}
	return errors.Join(lines.Err(), w.Flush())
}
