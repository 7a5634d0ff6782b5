package commands

// The file of the self-test's report, and how measuring ends early.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"headroom/app/selftest"
	"headroom/engine/problem"
)

// reportFile is a file for a report. It has another name until the report is complete, so that an
// interrupted run leaves no part of one, and does not damage an earlier one. The zero value is no
// file.
type reportFile struct {
	file *os.File
	path string // its name at the end; "": it has it already
}

// createReport creates the file of a report, or none for "". It fails before the measurements
// rather than after them. The error is a Problem.
func createReport(path string) (*reportFile, error) {
	if path == "" {
		return &reportFile{}, nil
	}
	f, err := openReport(path)
	if err != nil {
		return nil, reportProblem(err, "Choose another file.")
	}
	return f, nil
}

func openReport(path string) (*reportFile, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // such as a pipe; it cannot be replaced
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &reportFile{file: file}, err
	}
	if err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	unfinished := fmt.Sprintf("%s.%d.part", path, os.Getpid())
	file, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	return &reportFile{file, path}, err
}

// write writes the whole report and gives the file its name.
func (f *reportFile) write(r *selftest.Report) error {
	if f.file == nil {
		return nil
	}
	err := errors.Join(r.Write(f.file, true), f.file.Close())
	if err == nil && f.path != "" {
		err = os.Rename(f.file.Name(), f.path)
	}
	if err != nil {
		return reportProblem(err, "Choose another file.")
	}
	f.file = nil
	return nil
}

// remove removes the file if no report was written.
func (f *reportFile) remove() {
	if f.file == nil {
		return
	}
	_ = f.file.Close() // write may have closed it
	if f.path != "" {
		_ = os.Remove(f.file.Name())
	}
}

func reportProblem(err error, fix string) error {
	return problem.Wrap(problem.BadRequest, err, "The report could not be written", fix)
}

// graceful is the time that work has to end after Ctrl-C.
const graceful = 500 * time.Millisecond

// endSoon runs work, which ends soon after ctx. Work of a GPU that is under way cannot be stopped,
// and on the simulated one it may take seconds. If work does not end in time, endSoon returns
// ctx's error and leaks it, so it is only for a program that is about to end.
func endSoon(ctx context.Context, work func() error) error {
	late, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(graceful, stop) })()
	_, err := abandonable(late, func() (struct{}, error) { return struct{}{}, work() })
	return err
}
