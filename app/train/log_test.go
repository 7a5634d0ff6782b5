package train

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headroom/engine/problem"
)

// TestForeignLog: nothing is read from or written to what a link or a pipe in place of the log
// leads to, when a training goes on in a folder that somebody else may have made.
func TestForeignLog(t *testing.T) {
	for kind, make := range map[string]func(target, path string) error{
		"link":   os.Symlink,
		"pipe":   func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder": func(_, path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(kind, func(t *testing.T) {
			r := fakeRun(t, "finishes")
			r.Start = Start{Done: 2, Checkpoint: "x"}
			target := filepath.Join(t.TempDir(), "diary")
			const text = eventMark + `{"event": "train", "iteration": 1, "train_loss": 2}` + "\n"
			err := os.WriteFile(target, []byte(text), 0o600)
			if err == nil {
				err = make(target, r.Adapter.Log())
			}
			if err != nil {
				t.Fatal(err)
			}
			if losses := r.Adapter.Losses(r.Start); losses != nil {
				t.Errorf("losses were read: %v", losses)
			}
			err = r.Train(t.Context())
			if err == nil || !strings.Contains(problem.From(err).Why, "is ") {
				t.Errorf("got %v, expected an error", err)
			}
			if data, err := os.ReadFile(target); err != nil || string(data) != text {
				t.Errorf("the other file is %q, %v", data, err)
			}
		})
	}
}

// TestForeignConfig: mlx-lm writes adapter_config.json by opening it, so a link there goes.
func TestForeignConfig(t *testing.T) {
	a := Adapter{t.TempDir()}
	target := filepath.Join(t.TempDir(), "diary")
	if err := os.WriteFile(target, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(a.Dir, configName)); err != nil {
		t.Fatal(err)
	}
	if err := a.Begin(Record{}, Start{Done: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(a.Dir, configName)); err == nil {
		t.Error("the link is left")
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "mine" {
		t.Errorf("the other file is %q, %v", data, err)
	}
}
