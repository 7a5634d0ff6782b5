package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/app/hub/hubtest"
)

// uploadHub returns a hub for uploads, which HF_ENDPOINT and HF_TOKEN name.
func uploadHub(t *testing.T) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	hub.PartBytes = 100_000
	t.Setenv("HF_ENDPOINT", hub.URL)
	t.Setenv("HF_TOKEN", hubtest.Token)
	t.Cleanup(func() {
		for _, wrong := range hub.Wrong() {
			t.Error("against the protocol: " + wrong)
		}
	})
	return hub
}

// expectUploaded expects the repository to have the files of a folder.
func expectUploaded(t *testing.T, hub *hubtest.Hub, id, dir string) {
	t.Helper()
	got, _ := hub.Content(id)
	entries, err := os.ReadDir(dir)
	if err != nil || len(got) == 0 {
		t.Fatal(len(got), err)
	}
	for _, e := range entries {
		if text, _ := os.ReadFile(filepath.Join(dir, e.Name())); got[e.Name()] != string(text) {
			t.Errorf("the hub has another %s", e.Name())
		}
	}
}

// TestUpload uploads the demo model: to a new private repository, again, and over other files,
// which needs a yes.
func TestUpload(t *testing.T) {
	dir := demoFolder(t, filepath.Join(isolate(t), "m"))
	hub := uploadHub(t)
	code, out, errOut := headroom("", "upload", dir, "org/name", "--dry-run")
	if code != 0 || out != "" || !strings.Contains(errOut, "a new private repository:\n  new ") {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	if _, exists := hub.Content("org/name"); exists {
		t.Error("a dry run has made a repository")
	}
	code, out, errOut = headroom("", "upload", dir, "org/name")
	if code != 0 || !strings.HasPrefix(out, "org/name: ") || !strings.Contains(out,
		" were sent: "+hub.URL+"/org/name/commit/") || !hub.Repositories["org/name"].Private {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	expectUploaded(t, hub, "org/name", dir)
	code, out, errOut = headroom("", "upload", dir, "org/name", "--public")
	if code != 0 || !strings.Contains(out, "all files are there already: "+hub.URL+"/org/name") ||
		!strings.Contains(errOut, "stays private") {
		t.Errorf("again: exit %d, %q, %s", code, out, errOut)
	}
	hub.Add("org/other", false, map[string]hubtest.File{"config.json": {Content: "old"},
		"model-9.safetensors": {Content: "old", Large: true}})
	for _, c := range []struct {
		stdin, flag string
		code        int
		want        string
	}{
		{"", "", 1, "Nothing was uploaded"}, {"n\n", "", 1, "Nothing was uploaded"},
		{"", "--dry-run", 0, "  replaced "},
		{"", "--yes", 0, "keeps weights that the folder does not have"},
	} {
		args := append([]string{"upload", dir, "org/other"}, strings.Fields(c.flag)...)
		code, out, errOut := headroom(c.stdin, args...)
		if code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, %q, %s", args, code, out, errOut)
		}
		now, _ := hub.Content("org/other")
		if (now["config.json"] == "old") != (c.flag != "--yes") {
			t.Errorf("%q: config.json is %q", args, now["config.json"])
		}
	}
	expectUploaded(t, hub, "org/other", dir)
}

// TestUploadFlags: the flags of mlx_lm.upload, whose folder is mlx_model without one.
func TestUploadFlags(t *testing.T) {
	home := isolate(t)
	dir := demoFolder(t, filepath.Join(home, "mlx_model"))
	hub := uploadHub(t)
	t.Chdir(home)
	for id, args := range map[string][]string{"org/a": {"--path", dir, "--upload-repo", "org/a"},
		"org/b": {"--upload-repo", "org/b"}, "org/c": {"org/c", "--path", dir},
		"org/d": {dir, "--upload-repo", "org/d"}} {
		if code, _, errOut := headroom("", append([]string{"upload"}, args...)...); code != 0 {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
		expectUploaded(t, hub, id, dir)
	}
	for _, args := range [][]string{{}, {"org/c"}, {dir, "org/c", "--path", dir}} {
		if code, _, errOut := headroom("", append([]string{"upload"}, args...)...); code != 2 {
			t.Errorf("%q: exit %d, %s", args, code, errOut)
		}
	}
}

// TestUploadAnswered: "y" replaces files.
func TestUploadAnswered(t *testing.T) {
	dir := demoFolder(t, filepath.Join(isolate(t), "m"))
	hub := uploadHub(t)
	hub.Add("org/name", true, map[string]hubtest.File{"config.json": {Content: "old"}})
	code, _, errOut := headroom("y\n", "upload", dir, "org/name")
	if code != 0 || !strings.Contains(errOut, "Replace 1 file of org/name? [y/N]") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	expectUploaded(t, hub, "org/name", dir)
}

// TestConvertUpload: convert uploads its result, with the card. A token that is refused stops it
// before anything is converted.
func TestConvertUpload(t *testing.T) {
	home := isolate(t)
	hub := uploadHub(t)
	dest := filepath.Join(home, "dest")
	args := []string{"convert", "headroom-demo", dest, "--bits", "6", "--upload-repo", "org/name"}
	t.Setenv("HF_TOKEN", "hf_wrong")
	code, _, errOut := headroom("", args...)
	if _, err := os.Stat(dest); code != 1 || err == nil ||
		!strings.Contains(errOut, "The hub does not accept the token") {
		t.Fatalf("exit %d, %v, %s", code, err, errOut)
	}
	t.Setenv("HF_TOKEN", hubtest.Token)
	code, out, errOut := headroom("", append(args, "--public")...)
	if code != 0 || !strings.Contains(out, "6.5") || !strings.Contains(out, "were sent") ||
		hub.Repositories["org/name"].Private {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	expectUploaded(t, hub, "org/name", dest)
	if files, _ := hub.Content("org/name"); !strings.Contains(files["README.md"],
		"library_name: mlx") {
		t.Errorf("the card is %q", files["README.md"])
	}
	code, _, errOut = headroom("", "convert", "headroom-demo", dest+"2", "--bits", "6", "--public")
	if code != 1 || !strings.Contains(errOut, "--upload-repo is missing") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

// TestUploadRefused: what cannot be uploaded is refused with the reason.
func TestUploadRefused(t *testing.T) {
	dir := demoFolder(t, filepath.Join(isolate(t), "m"))
	uploadHub(t)
	unfinished := demoFolder(t, filepath.Join(t.TempDir(), "m"))
	if err := os.WriteFile(filepath.Join(unfinished, ".headroom-convert.json"), nil,
		0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{dir, "name"}, 1, "is not the name of a repository"},
		{[]string{dir, "foreign/name"}, 1, "may not make a repository of foreign"},
		{[]string{filepath.Dir(dir), "org/name"}, 1, "There is no model in"},
		{[]string{unfinished, "org/name"}, 1, "is not complete"},
		{[]string{dir}, 2, "repo"},
	} {
		code, out, errOut := headroom("", append([]string{"upload"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, %q, %s", c.args, code, out, errOut)
		}
	}
	t.Setenv("HF_TOKEN", "")
	if code, _, errOut := headroom("", "upload", dir, "org/name"); code != 1 ||
		!strings.Contains(errOut, "An upload needs a token") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	code, _, errOut := headroom("", "upload", filepath.Dir(dir), "org/name", "--dry-run")
	if code != 1 || !strings.Contains(errOut, "There is no model in") {
		t.Errorf("no model and no token: exit %d, %s", code, errOut)
	}
}
