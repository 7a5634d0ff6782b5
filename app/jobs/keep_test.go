package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
)

// Unfinished jobs are recalled as stopped ones and can be resumed; done and removed jobs are not.
func TestUnfinishedJobsSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.json")
	fail := func(err error) { t.Error(err) }
	work := func(done int64, err error) func(context.Context, *Progress) (string, error) {
		return func(ctx context.Context, p *Progress) (string, error) {
			p.Add(done)
			return "", err
		}
	}
	spec := func(name string, err error) Spec {
		return Spec{Kind: Download, Key: name, Title: name, TotalBytes: 9,
			Memo: json.RawMessage(`{"id":"` + name + `"}`), Work: work(3, err)}
	}
	first := NewList()
	end := first.Keep(path, fail)
	broken := errors.New("no line")
	for _, j := range []Job{first.Start(spec("done", nil)), first.Start(spec("failed", broken)),
		first.Start(spec("removed", broken)),
		first.Start(Spec{Kind: Import, Key: "x", Title: "without a memo", Work: work(1, broken)})} {
		if _, err := first.Wait(t.Context(), j.ID); err != nil {
			t.Fatal(err)
		}
		if j.Title == "removed" {
			if err := first.Remove(j.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	first.Close()
	end()
	want := []Kept{{Download, "failed", 3, 9, json.RawMessage(`{"id":"failed"}`)}}
	kept, err := ReadKept(path)
	if err != nil || !reflect.DeepEqual(kept, want) {
		t.Fatalf("kept %+v, %v, want %+v", kept, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}

	second := NewList()
	defer second.Close()
	second.Recall(spec(kept[0].Title, nil), kept[0].DoneBytes)
	jobs := second.Jobs()
	if len(jobs) != 1 || jobs[0].State != Stopped || jobs[0].DoneBytes != 3 ||
		jobs[0].TotalBytes != 9 {
		t.Fatalf("recalled: %+v", jobs)
	}
	if again := second.Start(spec("failed", nil)); again.ID != jobs[0].ID {
		t.Errorf("starting the same work started another job: %+v", again)
	}
	if done, err := second.Wait(t.Context(), jobs[0].ID); err != nil || done.State != Done {
		t.Errorf("resumed: %+v, %v", done, err)
	}
	discarded := false
	gone := spec("other", nil)
	gone.Discard = func() error { discarded = true; return nil }
	second.Recall(gone, 0)
	if err := second.Remove(second.Jobs()[1].ID); err != nil || !discarded {
		t.Errorf("removed: %v, discarded %v", err, discarded)
	}
}

func TestReadKept(t *testing.T) {
	dir := t.TempDir()
	if kept, err := ReadKept(filepath.Join(dir, "none")); kept != nil || err != nil {
		t.Errorf("no file: %v, %v", kept, err)
	}
	path := filepath.Join(dir, "jobs.json")
	if err := os.WriteFile(path, []byte(`[{"kind":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKept(path); err == nil {
		t.Error("half a file was accepted")
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKept(pipe); err == nil { // reading it would wait for a writer
		t.Error("a pipe was accepted")
	}
}
