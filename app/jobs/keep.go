package jobs

// Unfinished jobs over a restart: a small file has what is needed to make each of them again. It is
// written as a whole whenever a job's state changes; how far a job is comes from what its work
// finds on the disk, so that the file need not follow it.

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"headroom/app/disk"
)

// Kept is an unfinished job as the file has it.
type Kept struct {
	Kind       Kind            `json:"kind"`
	Title      string          `json:"title"`
	DoneBytes  int64           `json:"doneBytes"` // when it was last written down
	TotalBytes int64           `json:"totalBytes"`
	Memo       json.RawMessage `json:"memo"`
}

// mostKeptBytes is more than any number of jobs that people start takes.
const mostKeptBytes = 1 << 20

// ReadKept reads the file that Keep has written; there may be none.
func ReadKept(path string) ([]Kept, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var kept []Kept
	err = json.NewDecoder(io.LimitReader(file, mostKeptBytes)).Decode(&kept)
	return kept, err
}

// Recall lists a job that an earlier run of the program has left unfinished: it has stopped, and
// Resume goes on with it.
func (l *List) Recall(s Spec, doneBytes int64) {
	ended := make(chan struct{})
	close(ended)
	j := &job{Job: Job{Kind: s.Kind, Title: s.Title, State: Stopped}, spec: s,
		progress: newProgress(s.TotalBytes), cancel: func() {}, ended: ended}
	j.progress.Found(doneBytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(j)
	l.announce()
}

// Unfinished are the jobs that are not done and can be made again.
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

// Keep writes the unfinished jobs to the file, now and after each change of a state, until the
// returned function is called, which writes them once more. failed gets the errors.
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
