package jobs

// Unfinished jobs survive a restart: a small file has what the program needs to recreate them. It
// is replaced whenever a job's state changes, but not when a job progresses, because a resumed job
// finds its progress on disk.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"headroom/app/disk"
)

// Kept is an unfinished job as Keep writes it.
type Kept struct {
	Kind       Kind            `json:"kind"`
	Title      string          `json:"title"`
	DoneBytes  int64           `json:"doneBytes"` // when the file was written
	TotalBytes int64           `json:"totalBytes"`
	Memo       json.RawMessage `json:"memo"`
}

// maxKeptBytes is the longest file that ReadKept reads.
const maxKeptBytes = 1 << 20

// ErrDamaged means that Keep did not write the whole file.
var ErrDamaged = errors.New("the file of unfinished jobs is damaged, or another program's")

// ReadKept reads the file that Keep writes. A missing file is no error. If the file holds anything
// else, the error is ErrDamaged.
func ReadKept(path string) ([]Kept, error) {
	data, _, err := disk.Read(path, maxKeptBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []Kept
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, k := range kept {
		if k.Kind == "" {
			return nil, fmt.Errorf("%w: a job has no kind", ErrDamaged)
		}
	}
	return kept, nil
}

// Recall adds a job that an earlier run of the program left unfinished, as a stopped job. Resume
// continues it.
func (l *List) Recall(s Spec, doneBytes int64) {
	ended := make(chan struct{})
	close(ended)
	j := &job{Job: Job{Kind: s.Kind, Key: s.Key, Title: s.Title, State: Stopped}, spec: s,
		progress: newProgress(s.TotalBytes), cancel: func() {}, ended: ended}
	j.progress.Found(doneBytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(j)
	l.announce()
}

// Unfinished returns the jobs that are not done and have a Memo.
func (l *List) Unfinished() []Kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := []Kept{}
	for _, j := range l.jobs {
		if j.State != Done && j.spec.Memo != nil {
			now := j.now()
			kept = append(kept, Kept{j.Kind, j.Title, now.DoneBytes, now.TotalBytes, j.spec.Memo})
		}
	}
	return kept
}

// Keep writes the unfinished jobs to the file at path, at once and after every change of a job's
// state. end writes them a last time and stops. Keep passes errors to failed.
func (l *List) Keep(path string, failed func(error)) (end func()) {
	write := func() {
		if err := writeKept(path, l.Unfinished()); err != nil {
			failed(err)
		}
	}
	changed, unsubscribe := l.Subscribe()
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer write()
		for {
			write()
			select {
			case <-changed:
			case <-ending:
				return
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
		unsubscribe()
	}
}

// writeKept replaces the file, which only its owner can read.
func writeKept(path string, kept []Kept) error {
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return disk.WriteFile(path, append(data, '\n'), 0o600)
}
