package commands

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/library"
	"headroom/app/logs"
	"headroom/app/service"
	"headroom/app/settings"
)

// deletable puts the demo model into the models folder as "copy", with an adapter that is a part of
// it and one that is not, and makes it the draft model of the demo model.
func deletable(t *testing.T) (dir, trash string) {
	t.Helper()
	home := isolate(t)
	dir = demoFolder(t, filepath.Join(library.Own(), "copy"))
	writeAdapter(t, filepath.Join(dir, "inside"), dir)
	writeAdapter(t, filepath.Join(library.Own(), "adapters", "outside"), dir)
	err := service.OpenSettings().Change(func(s *settings.Settings) {
		s.DefaultModel = "copy"
		s.Models = map[string]settings.Model{"headroom-demo": {DraftModel: "copy"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(home, "data", "Trash", "files", "copy")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestDelete: a model is deleted after a question that says what goes, and is in the Trash then.
func TestDelete(t *testing.T) {
	dir, trash := deletable(t)
	for _, c := range []struct {
		typed string
		args  []string
		want  string
	}{
		{"", []string{"copy"}, "Add --yes to delete it."},
		{"n\n", []string{"copy"}, "Move it to the Trash? [y/N]"},
		{"\n", []string{"copy"}, "Move it to the Trash? [y/N]"},
		{"", []string{"headroom-demo", "--yes"}, "The bundled model cannot be deleted"},
		{"", []string{"none", "--yes"}, "none"},
		{"", []string{"copy", "--yes", "--folder", filepath.Dir(dir)}, "copy is not in "},
		{"", []string{demoFolder(t, filepath.Join(t.TempDir(), "elsewhere")), "--yes"},
			"Headroom does not remove this folder"},
	} {
		args := append([]string{"models", "delete"}, c.args...)
		code, _, errOut := headroom("", args...)
		if c.typed != "" {
			code, _, errOut = answering(t, c.typed, args...)
		}
		if code != 1 || !strings.Contains(errOut, c.want) || !exists(dir) {
			t.Errorf("%q: exit %d, %s", c.args, code, errOut)
		}
	}
	code, out, errOut := answering(t, "y\n", "models", "delete", "copy")
	for _, want := range []string{"copy, 11.4 MB: " + dir + "\n",
		"The adapter copy+inside is in its folder and goes with it.\n",
		"The adapter copy+outside cannot be used without it.\n",
		"It is the default model of the settings.\n",
		"It is the draft model of headroom-demo.\n"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("%s lacks %q", errOut, want)
		}
	}
	if code != 0 || !strings.Contains(out, dir+" was moved to the Trash.") || exists(dir) ||
		!exists(filepath.Join(trash, "config.json")) {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

// TestDeleteCopies: of a model in several folders, the one is deleted that is named. One that is
// not complete is deleted, too.
func TestDeleteCopies(t *testing.T) {
	isolate(t)
	first := demoFolder(t, filepath.Join(library.Own(), "one"))
	other := t.TempDir()
	second := demoFolder(t, filepath.Join(other, "one"))
	code, _, errOut := headroom("", "models", "delete", "one", "--yes", "--models-dir", other)
	if code != 1 || !strings.Contains(errOut, "one is in several folders") ||
		!strings.Contains(errOut, "--folder "+second) {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	code, _, errOut = headroom("", "models", "delete", "one", "--yes", "--models-dir", other,
		"--folder", second)
	if code != 0 || exists(second) || !exists(first) {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if err := os.Truncate(filepath.Join(first, "model.safetensors"), 100); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut = headroom("", "models", "delete", "one", "--yes"); code != 0 ||
		exists(first) {
		t.Errorf("a damaged one: exit %d, %s", code, errOut)
	}
}

// serving runs a server with a model until the test ends.
func serving(t *testing.T, model string) *service.Service {
	t.Helper()
	flags := ModelFlags{Device: "cpu", Threads: 1, Context: 512}
	o := flags.ServiceOptions(ServiceUse{InProcess: true})
	o.Listen, o.Logs = "127.0.0.1", logs.New(0)
	s, err := service.New(o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	t.Cleanup(func() { s.Close(); <-served })
	if err := errors.Join(s.Host.Start(model), s.Host.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDeleteWhileServing: a running server deletes, and refuses while it has the model loaded.
func TestDeleteWhileServing(t *testing.T) {
	dir, _ := deletable(t)
	s := serving(t, "copy")
	code, _, errOut := headroom("", "models", "delete", "copy", "--yes")
	if code != 1 || !strings.Contains(errOut, "copy is loaded by the server at http://") ||
		!exists(dir) {
		t.Errorf("loaded: exit %d, %s", code, errOut)
	}
	s.Host.Stop()
	if code, _, errOut = headroom("", "models", "delete", "copy", "--yes"); code != 0 ||
		exists(dir) {
		t.Errorf("stopped: exit %d, %s", code, errOut)
	}
	if _, err := s.Host.Resolve("copy"); err == nil {
		t.Error("the server still lists the model")
	}
}
