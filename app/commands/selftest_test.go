package commands

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"headroom/metal/sim"
)

// TestSelftest runs the self-test on the simulated GPU. The terminal shows the verdict, the file
// the whole report.
func TestSelftest(t *testing.T) {
	if testing.Short() {
		t.Skip("the simulated device takes long")
	}
	m, err := sim.Open(sim.Options{})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	config := t.TempDir() // not the cache folder, which has the compiled kernels
	t.Setenv("XDG_CONFIG_HOME", config)
	file := filepath.Join(t.TempDir(), "report.txt")
	code, out, errOut := headroom("", "selftest", "--short", "--out", file)
	if code != 0 || !strings.Contains(out, "PASSED: ") || strings.Contains(out, "passed kernels") {
		t.Errorf("exit %d, output %q, %s", code, out, errOut)
	}
	if !strings.HasPrefix(errOut, "There is no Metal on linux: trying the simulated GPU.\n") {
		t.Errorf("stderr %q, expected a note that the GPU is simulated", errOut)
	}
	report, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(report), "PASSED: ") ||
		!strings.Contains(string(report), "passed kernels, norm: rms_norm") {
		t.Errorf("report (%v):\n%s", err, report)
	}
	if kept, _ := filepath.Glob(filepath.Join(config, "*", "selftest.json")); len(kept) != 0 {
		t.Errorf("the simulated GPU's result was saved as a Mac's: %v", kept)
	}
}

// TestSelftestTune tunes the demo model on the simulated GPU. The report has what was measured, and
// the settings folder keeps it.
func TestSelftestTune(t *testing.T) {
	m, err := sim.Open(sim.Options{})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	tuneBudget = 300 * time.Millisecond
	defer func() { tuneBudget = 0 }()
	code, out, errOut := headroom("", "selftest", "--tune", "--device", "sim")
	if code != 0 || !strings.Contains(out, "choices measured") ||
		!strings.Contains(out, "without checks") || !strings.Contains(errOut, "--out report.txt") {
		t.Errorf("exit %d, output %q, %s", code, out, errOut)
	}
	if kept, _ := filepath.Glob(filepath.Join(config, "*", "tuning-*.json")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}

// TestSelftestInterrupted: Ctrl-C ends measuring at once. An earlier report and other files stay as
// they were, no part of a new one is left, and no tuning is kept.
func TestSelftestInterrupted(t *testing.T) {
	m, err := sim.Open(sim.Options{})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	for _, c := range []struct {
		command   Selftest
		line, end string
	}{
		{Selftest{Tune: true}, "choice measured", "No tuning was kept"},
		{Selftest{Figures: true}, "copying", "before the last figure"},
	} {
		config := isolate(t)
		out := filepath.Join(t.TempDir(), "report.txt")
		foreign := out + ".part"
		for _, path := range []string{out, foreign} {
			if err := os.WriteFile(path, []byte("earlier"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		said := &cancelAt{text: c.line, cancel: cancel}
		c.command.Device, c.command.Out = "sim", out
		err := c.command.Run(ctx, &terminal{err: said})
		if !interrupted(err) || !strings.Contains(said.String(), c.end) {
			t.Errorf("%v, %q; expected %q", err, said, c.end)
		}
		if took := time.Since(said.at); took > 5*time.Second { // graceful, on a busy machine
			t.Errorf("%s: ended %s after the interrupt", c.line, took)
		}
		for _, path := range []string{out, foreign} {
			if text, err := os.ReadFile(path); err != nil || string(text) != "earlier" {
				t.Errorf("%s is %q, %v", path, text, err)
			}
		}
		if all, _ := os.ReadDir(filepath.Dir(out)); len(all) != 2 {
			t.Errorf("left: %v", all)
		}
		if kept, _ := filepath.Glob(filepath.Join(config, "*", "*", "tuning-*.json")); kept != nil {
			t.Errorf("kept %v", kept)
		}
	}
}

// cancelAt is a stream that cancels a context when a text is written to it.
type cancelAt struct {
	strings.Builder
	text   string
	cancel func()
	at     time.Time
}

func (c *cancelAt) Write(p []byte) (int, error) {
	if c.at.IsZero() && strings.Contains(string(p), c.text) {
		c.at = time.Now()
		c.cancel()
	}
	return c.Builder.Write(p)
}

func TestSelftestRefusals(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--repeats", "-1"}, 2, "--repeats"},
		{[]string{"--device", "abacus"}, 2, "--device"},
		{[]string{"--model", "x"}, 2, "--tune"},
		{[]string{"--figures", "--short"}, 2, "--short is for the test"},
		{[]string{"--tune", "--repeats", "3"}, 2, "--repeats is for the test"},
		{[]string{"--tune", "--model", "no such model"}, 1, "no such model"},
		{[]string{"--out", filepath.Join(t.TempDir(), "no", "folder")}, 1,
			"The report could not be written"},
		{[]string{"--device", "metal"}, 1, "This device is not available"},
	} {
		if runtime.GOOS == "darwin" && c.args[1] == "metal" {
			continue
		}
		if code, _, errOut := headroom("",
			append([]string{"selftest"}, c.args...)...); code != c.code ||
			!strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit %d, %q; expected %d and %q", c.args, code, errOut, c.code, c.want)
		}
	}
}
