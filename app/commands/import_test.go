package commands

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/app/demo"
	"headroom/app/jobs"
	"headroom/app/library"
)

// demoFolder copies the bundled model into dir.
func demoFolder(t *testing.T, dir string) string {
	t.Helper()
	files, err := fs.Sub(demo.Files, "model")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestModelsImport imports a model, which the real engine checks before and after. The model is
// then listed and cannot be imported twice.
func TestModelsImport(t *testing.T) {
	home := isolate(t)
	from := demoFolder(t, filepath.Join(home, "Downloads", "My \"Model\"\nhere"))
	if code, out, _ := headroom("", "models", "import", "--dry-run", from); code != 0 ||
		!strings.HasPrefix(out, `My "Model" here: `) {
		t.Errorf("dry run: exit %d, %q", code, out)
	}
	if _, err := os.Stat(library.Own()); err == nil {
		t.Error("the dry run left a folder")
	}
	code, out, errOut := headroom("", "models", "import", from)
	goal := filepath.Join(library.Own(), `My "Model" here`)
	if code != 0 || out != `My "Model" here: `+goal+"\n" || errOut != "" {
		t.Errorf("exit %d, %q, %s", code, out, errOut)
	}
	if code, out, _ := headroom("", "models"); code != 0 ||
		!strings.Contains(out, "\n"+`My "Model" here  `) {
		t.Errorf("it is not listed: %s", out)
	}
	if code, _, errOut := headroom("", "models", "import", from); code != 1 ||
		!strings.Contains(errOut, "already") {
		t.Errorf("imported twice: exit %d, %s", code, errOut)
	}
	if code, _, errOut := headroom("", "models", "import", goal); code != 1 ||
		!strings.Contains(errOut, "already in the list") {
		t.Errorf("a model in the list: exit %d, %s", code, errOut)
	}
	code, out, errOut = headroom("", "models", "import", "--link", "--to",
		filepath.Join(home, "else"), "--name", "org/linked", from)
	if code != 0 || !strings.HasPrefix(out, "org/linked: ") ||
		!strings.Contains(errOut, "--models-dir") {
		t.Errorf("link: exit %d, %q, %s", code, out, errOut)
	}
	if target, err := os.Readlink(filepath.Join(home, "else", "org", "linked")); err != nil ||
		target != from {
		t.Errorf("the link points to %q, %v", target, err)
	}
	if code, _, errOut := headroom("", "models", "import", "--copy", "--move", from); code != 2 ||
		!strings.Contains(errOut, "can't be used together") {
		t.Errorf("two modes: exit %d, %s", code, errOut)
	}
}

func TestModelsImportFindsDamage(t *testing.T) {
	home := isolate(t)
	from := demoFolder(t, filepath.Join(home, "m"))
	weights, err := filepath.Glob(filepath.Join(from, "*.safetensors"))
	if err == nil {
		err = os.Truncate(weights[0], 1000)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := headroom("", "models", "import", from,
		filepath.Join(home, "gone")); code != 1 || out != "" ||
		strings.Count(errOut, "Not imported: ") != 2 {
		t.Errorf("exit %d, %q, %s", code, out, errOut)
	}
}

func TestJobLine(t *testing.T) {
	cases := []struct {
		job  jobs.Job
		want string
	}{
		{jobs.Job{Title: "m", Left: -1}, "m: 0 B"},
		{jobs.Job{Title: "m", DoneBytes: 25e8, TotalBytes: 1e10, BytesPerSecond: 5e8,
			Left: 15 * time.Second}, "m: 2.5 GB of 10.0 GB (25 %), 500 MB/s, 15s left"},
		{jobs.Job{Title: "m", DoneBytes: 12, TotalBytes: 10, Left: -1, Phase: "checking"},
			"m: 12 B of 10 B (100 %) [checking]"},
	}
	for _, c := range cases {
		if got := jobLine(c.job); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
