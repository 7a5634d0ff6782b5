package commands

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestConvert packs the demo model in other bits, and runs the result. Nothing is replaced.
func TestConvert(t *testing.T) {
	dest := filepath.Join(isolate(t), "a", "b")
	code, out, errOut := headroom("", "convert", "headroom-demo", dest, "--bits", "6")
	if code != 0 || !strings.HasPrefix(out, dest+": ") ||
		!strings.Contains(out, " in 1 file, 6.5") || strings.Contains(out, "earlier run") ||
		!strings.Contains(errOut, "(MTP)") {
		t.Fatalf("exit %d, %q, %s", code, out, errOut)
	}
	code, out, errOut = headroom("", "run", "--model", dest, "--temp=0", question)
	if code != 0 || !strings.Contains(out, "keys and values") {
		t.Errorf("the result answers: exit %d, %q, %s", code, out, errOut)
	}
	config, err := os.ReadFile(filepath.Join(dest, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	other, wrong := filepath.Join(filepath.Dir(dest), "other"), dest+".gguf"
	if err := os.WriteFile(wrong, []byte("<html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"headroom-demo", dest, "--bits", "6"}, 1, "The folder has a model already"},
		{[]string{"headroom-demo", other}, 1, "This model is packed already"},
		{[]string{"headroom-demo", other, "--bits", "7"}, 1, "7 bits"},
		{[]string{"headroom-demo", other, "-q", "-d"}, 1, "both were asked for"},
		{[]string{"headroom-demo", other, "--mode", "int4"}, 2, "--mode must be one of"},
		{[]string{"no-model", other, "-q"}, 1, "no-model"},
		{[]string{"no.gguf", other}, 1, "There is no file no.gguf"},
		{[]string{"headroom-demo", other, "--mode", "mxfp4", "--bits", "8"}, 1,
			"choose another mode than mxfp4"},
		{[]string{"headroom-demo", other, "--dtype", "int8"}, 2, "--dtype must be one of"},
		{[]string{"headroom-demo"}, 1, "This model is packed already"},
		{nil, 2, "expected <source>"},
		{[]string{"--hf-path", "a", "b", "c"}, 2, "one argument too many"},
		{[]string{"--hf-path", "headroom-demo", "--mlx-path", other}, 1, "add -q, or --bits"},
		{[]string{wrong, other}, 1, "is not a GGUF file"},
	} {
		code, out, errOut := headroom("", append([]string{"convert"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%q: exit %d, %q, %s; expected %d with %q", c.args, code, out, errOut, c.code,
				c.want)
		}
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("a refused conversion has made its folder")
	}
	again, err := os.ReadFile(filepath.Join(dest, "config.json"))
	if err != nil || string(again) != string(config) {
		t.Errorf("config.json has changed, %v", err)
	}
}

// TestFuseArguments: the arguments of fuse by their places, and by the flags of mlx_lm.fuse.
func TestFuseArguments(t *testing.T) {
	dir := isolate(t)
	for want, args := range map[string][]string{
		"This folder has no adapter": {"headroom-demo", dir, filepath.Join(dir, "new")},
		dir + " has no adapter_config.json": {"--model", "headroom-demo", "--adapter-path", dir,
			"--save-path", filepath.Join(dir, "new")},
		"expected <adapter>":       {"--model", "headroom-demo"},
		"There is no file no.gguf": {"no.gguf", dir, filepath.Join(dir, "new")},
	} {
		code, out, errOut := headroom("", append([]string{"fuse"}, args...)...)
		if code == 0 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit %d, %q, %s; expected %q", args, code, out, errOut, want)
		}
	}
}

// TestResultThatDoesNotLoad: a conversion whose result cannot be loaded has failed, and says why.
func TestResultThatDoesNotLoad(t *testing.T) {
	dest := filepath.Join(isolate(t), "dest")
	check := checkResult
	defer func() { checkResult = check }()
	checkResult = func(dir string) error {
		if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 5000); err != nil {
			t.Error(err)
		}
		return check(dir)
	}
	code, out, errOut := headroom("", "convert", "headroom-demo", dest, "--bits", "6")
	if code != 1 || out != "" || !strings.Contains(errOut,
		"The result in "+dest+" cannot be loaded\n  why: ") {
		t.Errorf("exit %d, %q, %s", code, out, errOut)
	}
}

// TestFolderByDefault: without a folder for the result, it is mlx-lm's. An adapter that is fused
// into a packed model unpacks it, and the output says so, with the sizes.
func TestFolderByDefault(t *testing.T) {
	_, model := trainable(t)
	home := t.TempDir()
	t.Chdir(home)
	adapter := filepath.Join(home, "adapter")
	writeAdapter(t, adapter, model)
	for folder, args := range map[string][]string{"mlx_model": {"convert", "tiny", "--bits", "6"},
		"fused_model": {"fuse", "tiny", adapter}} {
		code, out, errOut := headroom("", args...)
		if code != 0 || !strings.HasPrefix(out, folder+": ") ||
			!exists(filepath.Join(home, folder, "config.json")) {
			t.Errorf("%q: exit %d, %s%s", args, code, out, errOut)
		}
		said := regexp.MustCompile(`tiny is packed \(4-bit.*\) and has [\d.]+ kB\. The result is ` +
			`not packed, and has [\d.]+ kB: add -q`).MatchString(errOut)
		if said != (args[0] == "fuse") {
			t.Errorf("%q: %s", args, errOut)
		}
	}
	elsewhere := t.TempDir()
	demoFolder(t, filepath.Join(elsewhere, "far"))
	code, _, errOut := headroom("", "convert", "far", filepath.Join(home, "near"), "--bits", "6",
		"--models-dir", elsewhere)
	if code != 0 {
		t.Errorf("--models-dir: exit %d, %s", code, errOut)
	}
	code, _, errOut = headroom("", "fuse", "tiny", adapter, filepath.Join(home, "packed"), "-q")
	if code != 0 || strings.Contains(errOut, "is packed") {
		t.Errorf("-q: exit %d, %s", code, errOut)
	}
}

// TestLargerResult: of a model that is not packed, and before a refusal, nothing is said about a
// result that is not packed.
func TestLargerResult(t *testing.T) {
	_, _, adapter := adapted(t)
	home := t.TempDir()
	plain, full := filepath.Join(home, "plain"), filepath.Join(home, "full")
	if code, _, errOut := headroom("", "convert", "tiny", plain, "-d"); code != 0 {
		t.Fatal(errOut)
	}
	writeAdapter(t, full, plain)
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{plain, adapter, filepath.Join(home, "fused")}, 0},
		{[]string{"tiny", adapter, full}, 1}} {
		code, _, errOut := headroom("", append([]string{"fuse"}, c.args...)...)
		if code != c.code || strings.Contains(errOut, "packed") {
			t.Errorf("%q: exit %d, %s", c.args, code, errOut)
		}
	}
}

// TestFlagsOfOthers: a flag of llama.cpp gets the name that it has here, if the command has it.
func TestFlagsOfOthers(t *testing.T) {
	isolate(t)
	for _, c := range []struct{ args, want string }{
		{"run -m x hi", "unknown flag -m: in Headroom it is --model MODEL"},
		{"run -p hi", "unknown flag -p: in Headroom it is the prompt without a flag"},
		{"run -ngl 99 hi", "unknown flag -ngl: in Headroom it is --device"},
		{"run --ctx-size 5 hi", "unknown flag --ctx-size: in Headroom it is --context TOKENS"},
		{"serve --md x", "unknown flag --md: in Headroom it is --draft-model MODEL"},
		{"convert a b --n-predict 5", "unknown flag --n-predict\n"},
		{"serve -p 5", "unknown flag -p, did you mean"},
	} {
		code, _, errOut := headroom("", strings.Fields(c.args)...)
		if code != 2 || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d, %s; expected %q", c.args, code, errOut, c.want)
		}
	}
}

// TestConvertNames: a model that is not there gets the names of those that are, not the shapes of
// the benchmark, which have no weights.
func TestConvertNames(t *testing.T) {
	dest := filepath.Join(isolate(t), "dest")
	code, _, errOut := headroom("", "convert", "qwen3-0.6b", dest)
	if code != 1 || strings.Contains(errOut, "shape") || strings.Contains(errOut, "llama-3.2") ||
		!strings.Contains(errOut, "headroom-demo") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	for alias, name := range map[string]string{"bf16": "bfloat16", "fp16": "float16",
		"f32": "float32", "float32": "float32", "": ""} {
		if got := dtypeOf(alias); got != name {
			t.Errorf("%s is %s, expected %s", alias, got, name)
		}
	}
}

// TestConvertGGUF converts a GGUF file by its path and by the folder that has it. The output says
// what became of its types. A folder with two models is refused.
func TestConvertGGUF(t *testing.T) {
	home := isolate(t)
	data, err := os.ReadFile(filepath.Join("..", "..", "engine", "testdata", "gguf", "llama.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(home, "files")
	path := filepath.Join(folder, "llama.gguf")
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
	for i, source := range []string{path, folder} {
		dest := filepath.Join(home, "dest", strconv.Itoa(i))
		args := []string{"convert", source, dest, "--dtype", "f32"}
		want := "Q4_K: 3 tensors, 4-bit, group 32: exact\n"
		if i == 1 {
			args, want = args[:3], "Q4_K: 3 tensors, 4-bit, group 32: codes kept, scales rounded, "+
				"relative error 0.000"
		}
		code, out, errOut := headroom("", args...)
		if code != 0 || !strings.Contains(out, want) || !strings.Contains(out,
			"Q6_K: 2 tensors, 8-bit, group 32: packed anew, relative error 0.00") {
			t.Errorf("%s: exit %d, %q, %s", source, code, out, errOut)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "other.gguf"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := headroom("", "convert", folder, filepath.Join(home, "no"))
	if code != 1 || !strings.Contains(errOut, "files of different models") {
		t.Errorf("two models: exit %d, %s", code, errOut)
	}
	code, out, errOut := headroom("", "models", "import", path, "--dry-run")
	if code != 0 || !strings.HasPrefix(out, "llama: converted from "+path) {
		t.Errorf("import: exit %d, %q, %s", code, out, errOut)
	}
}

// TestConvertProgress: a terminal gets one line that changes and then goes, anything else lines.
func TestConvertProgress(t *testing.T) {
	for _, onTerminal := range []bool{true, false} {
		var out strings.Builder
		p := newConvertProgress(&out)
		p.onTerminal = onTerminal
		p.update(1<<20, 4<<20)
		if out.Len() != 0 {
			t.Errorf("%q at once", out.String())
		}
		p.shown = p.shown.Add(-reportEvery)
		p.begun = p.begun.Add(-reportEvery)
		p.update(2<<20, 4<<20)
		p.clear()
		got := out.String()
		if !strings.Contains(got, "2.1 MB of 4.2 MB (50 %), ") || !strings.Contains(got, " left") ||
			strings.HasSuffix(got, "\x1b[K") != onTerminal ||
			strings.HasSuffix(got, " left\n") == onTerminal {
			t.Errorf("terminal %t: %q", onTerminal, got)
		}
	}
}
