package commands

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestBenchCache runs a small benchmark and checks what does not depend on the machine: how many
// tokens were computed.
func TestBenchCache(t *testing.T) {
	home := isolate(t)
	t.Setenv("TMPDIR", home)
	code, out, errOut := headroom("", "bench", "cache", "--repeat=1", "--prompt=700",
		"--stream=400", "--head=300", "--streams=2", "--tokens=4", "--turns=3", "--grow=900")
	if code != 0 {
		t.Fatalf("exit %d, %s\n%s", code, out, errOut)
	}
	for _, want := range []string{`cold +\d+\.\d ms +1\.0 x`,
		`from disk, after a restart +\d+\.\d ms +\d+\.\d x`, `from memory +\d+\.\d ms`,
		`The store's \d+\.\d MB`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	column := func(row string) (numbers []int) {
		// the column "computed"; all columns to the right of it are times
		for _, m := range regexp.MustCompile(`(?m)^ *`+row+
			` .*?(\d+) +\d+\.\d ms(?: +\d+\.\d ms)? *$`).FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[1])
			numbers = append(numbers, n)
		}
		return numbers
	}
	whole, once := column("one after another, no prefix cache"), column("at once")
	if len(whole) != 2 || len(once) != 2 || whole[0] < 800 || once[0] != whole[0] ||
		once[1] > whole[1]-290 {
		t.Errorf(
			"computed: %v one after another, %v at once; want the shared prefix computed once\n%s",
			whole, once, out)
	}
	for turn := 2; turn <= 3; turn++ {
		m := regexp.MustCompile(`(?m)^ *` + strconv.Itoa(turn) +
			` +(\d+) +(\d+) +\d+\.\d ms`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no turn %d in\n%s", turn, out)
		}
		prompt, _ := strconv.Atoi(m[1])
		computed, _ := strconv.Atoi(m[2])
		if computed > 400 || prompt < 250*turn {
			t.Errorf("turn %d computed %d of %d tokens, want only the new ones", turn, computed,
				prompt)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(home, "headroom-bench-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(home, "cache")); err == nil {
		t.Error("it wrote to the user's cache")
	}
}

// TestBenchCacheTooLong: prompts longer than the context are refused before anything is measured.
func TestBenchCacheTooLong(t *testing.T) {
	isolate(t)
	code, out, errOut := headroom("", "bench", "cache", "--grow=40000")
	if code != 1 || out != "" || !strings.Contains(errOut, "the context holds 32768") {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}
