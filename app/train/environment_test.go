package train

import (
	"os"
	"path/filepath"
	"testing"

	"headroom/engine/problem"
)

// TestEnvironmentInUse: while something runs with the environment, nobody removes it, and others
// may run with it too.
func TestEnvironmentInUse(t *testing.T) {
	e := Environment{t.TempDir()}
	if _, err := e.Use(); problem.From(err).Code != problem.NotFound {
		t.Errorf("without an environment: %v", err)
	}
	interpreter := python(e.current())
	if err := os.MkdirAll(filepath.Dir(interpreter), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(interpreter, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	var releases []func()
	for range 2 {
		release, err := e.Use()
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	unlock, err := e.Lock() // a training
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	for _, release := range releases {
		if err := e.Remove(); problem.From(err).Code != problem.Busy || !e.Ready() {
			t.Errorf("it was removed while it was used: %v", err)
		}
		if err := e.Install(t.Context(), t.Output()); problem.From(err).Code != problem.Busy {
			t.Errorf("it was installed while it was used: %v", err)
		}
		release()
	}
	if err := e.Remove(); err != nil || e.Ready() {
		t.Errorf("it was not removed: %v", err)
	}
}
