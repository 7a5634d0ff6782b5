package commands

import (
	"os"
	"path/filepath"
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
	other := filepath.Join(filepath.Dir(dest), "other")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"headroom-demo", dest, "--bits", "6"}, 1, "The folder is not empty"},
		{[]string{"headroom-demo", other}, 1, "This model is packed already"},
		{[]string{"headroom-demo", other, "--bits", "7"}, 1, "7 bits"},
		{[]string{"headroom-demo", other, "-q", "-d"}, 1, "both were asked for"},
		{[]string{"headroom-demo", other, "--mode", "int4"}, 2, "--mode must be one of"},
		{[]string{"no-model", other, "-q"}, 1, "no-model"},
		{[]string{"headroom-demo"}, 2, "dest"},
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
