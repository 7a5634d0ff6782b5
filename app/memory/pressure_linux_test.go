package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPressureIn(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	none := filepath.Join(dir, "none")
	stalls := func(some, full string) string {
		return "some avg10=" + some + " avg60=99.00 avg300=99.00 total=1\n" +
			"full avg10=" + full + " avg60=99.00 avg300=99.00 total=1\n"
	}
	calm, busy := file("calm", stalls("0.50", "0.00")), file("busy", stalls("12.00", "2.00"))
	stuck, behind := file("stuck", stalls("20.00", "11.00")), file("behind", stalls("45.00", "0.0"))
	swap := file("meminfo", "MemTotal: 9 kB\nSwapCached: 7 kB\nSwapTotal: 2048 kB\n"+
		"SwapFree: 1024 kB\n")
	for _, c := range []struct {
		name    string
		stalls  []string
		meminfo string
		want    Pressure
	}{
		{"the container's file comes first", []string{busy, calm}, swap,
			Pressure{Warning, 1 << 20, 2 << 20, 12}},
		{"no container", []string{none, calm}, none, Pressure{Normal, 0, 0, 0.5}},
		{"all wait", []string{stuck}, none, Pressure{Critical, 0, 0, 20}},
		{"some wait for long", []string{behind}, none, Pressure{Critical, 0, 0, 45}},
		{"a kernel without PSI", []string{none}, swap, Pressure{Unreported, 1 << 20, 2 << 20, 0}},
		{"not a pressure file", []string{swap}, none, Pressure{}},
	} {
		if got := pressureIn(c.stalls, c.meminfo); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
