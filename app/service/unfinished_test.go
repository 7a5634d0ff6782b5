package service

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"headroom/app/control"
	"headroom/app/hub"
	"headroom/app/importer"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/engine"
)

// TestUnfinishedJobs: after a restart, an interrupted import and download are listed as stopped. A
// second program that runs at the same time lists none.
func TestUnfinishedJobs(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	tokens := &hub.Tokens{}
	transfers := &control.Transfers{
		Importer: func() (*importer.Importer, error) {
			describe := func(engine.Source, engine.Options) (engine.Description, error) {
				return engine.Description{}, errors.New("no model")
			}
			return importer.New(importer.Options{Root: root, Describe: library.Describe(describe)}),
				nil
		},
		Hub: func() (*hub.Client, error) { return NewHub("http://127.0.0.1:1", tokens) },
	}
	client, err := transfers.Hub()
	if err != nil {
		t.Fatal(err)
	}
	im, err := transfers.Importer()
	if err != nil {
		t.Fatal(err)
	}
	first := jobs.NewList()
	end := KeepJobs(dir, first, transfers)
	gone := filepath.Join(root, "gone")
	for _, spec := range []jobs.Spec{client.Job(hub.Request{ID: "o/m"}),
		im.Recreate(importer.Memo{Source: gone, Target: filepath.Join(root, "n"), Name: "n",
			Mode: importer.Copy})} {
		j := first.Start(spec)
		if err := first.Stop(j.ID); err != nil {
			t.Fatal(err)
		}
	}
	concurrent := jobs.NewList()
	KeepJobs(dir, concurrent, transfers)()
	if len(concurrent.Jobs()) != 0 {
		t.Errorf("a second program lists %+v", concurrent.Jobs())
	}
	first.Close()
	end()

	second := jobs.NewList()
	end = KeepJobs(dir, second, transfers)
	listed := second.Jobs()
	if len(listed) != 2 || listed[0].Title != "o/m" || listed[0].State != jobs.Stopped ||
		listed[1].Title != "n" || listed[1].Kind != jobs.Import {
		t.Fatalf("after the restart: %+v", listed)
	}
	if err := second.Resume(listed[1].ID); err != nil {
		t.Fatal(err)
	}
	if j, err := second.Wait(t.Context(), listed[1].ID); err != nil || j.State != jobs.Failed {
		t.Errorf("an import whose source does not exist: %+v, %v", j, err)
	}
	for _, j := range listed {
		if err := second.Remove(j.ID); err != nil {
			t.Error(err)
		}
	}
	second.Close()
	end()
	if text, err := os.ReadFile(filepath.Join(dir, "jobs.json")); err != nil ||
		string(text) != "[]\n" {
		t.Errorf("the file contains %s, %v", text, err)
	}
}
