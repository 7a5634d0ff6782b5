package service

import (
	"os"
	"path/filepath"
	"testing"

	"headroom/app/control"
	"headroom/app/jobs"
)

// TestForeignJobs: a file of jobs that is damaged or another program's is set aside, once.
func TestForeignJobs(t *testing.T) {
	for _, text := range []string{`[{"kind":"downl`, "my jobs", `[{"company":"x"}]`, `[] more`,
		`{"jobs":1}`} {
		path := filepath.Join(t.TempDir(), jobsFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			KeepJobs(filepath.Dir(path), jobs.NewList(), &control.Transfers{})()
		}
		if left, err := os.ReadFile(path + ".damaged-1"); string(left) != text {
			t.Errorf("the copy of %q has %q, %v", text, left, err)
		}
		if copies, _ := filepath.Glob(path + ".damaged-*"); len(copies) != 1 {
			t.Errorf("%d copies of %q", len(copies), text)
		}
		if kept, err := jobs.ReadKept(path); err != nil || len(kept) != 0 {
			t.Errorf("the new file has %v, %v", kept, err)
		}
	}
}
