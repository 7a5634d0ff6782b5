package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestGrowth(t *testing.T) {
	// life returns samples with this number of goroutines each.
	life := func(goroutines ...int) []sample {
		var list []sample
		for i, n := range goroutines {
			list = append(list, sample{cycle: i, goroutines: n, serverMB: 50})
		}
		return list
	}
	restart := []sample{{restart: true}}
	for name, c := range map[string]struct {
		samples []sample
		grows   bool
	}{
		"steady":           {life(20, 25, 24, 25, 26, 25, 24), false},
		"leak":             {life(20, 25, 30, 35, 40, 45, 50), true},
		"first sample low": {life(1, 25, 25, 25, 25, 25, 25), false},
		"peaks":            {life(20, 25, 90, 25, 90, 25, 90), false},
		"too short":        {life(20, 25, 50, 90, 120, 150), false},
		"restart in between": {
			slices.Concat(life(5, 5, 5, 5), restart, life(50, 50, 50, 50)), false},
		"leak after restart": {
			slices.Concat(life(5, 5), restart, life(1, 5, 9, 20, 30, 40, 50)), true},
	} {
		found := growth(c.samples)
		if (len(found) > 0) != c.grows {
			t.Errorf("%s: %q, want growth %t", name, found, c.grows)
		}
		if c.grows && !strings.HasPrefix(found[0], "goroutines grew from ") {
			t.Errorf("%s: %q", name, found)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	const whole = `{"choices":[{"message":{"content":"a"},"finish_reason":"stop",` +
		`"logprobs":{"content":[{"token":"a","logprob":-0.5}]}}]}`
	a, err := readAnswer([]byte(whole))
	if err != nil || a.text != "a" {
		t.Fatalf("%+v, %v", a, err)
	}
	for name, change := range map[string][2]string{"text": {`"content":"a"`, `"content":"b"`},
		"finish reason": {"stop", "length"}, "log-probability": {"-0.5", "-0.25"}} {
		other, err := readAnswer([]byte(strings.Replace(whole, change[0], change[1], 1)))
		if err != nil || other.digest == a.digest {
			t.Errorf("another %s: digest %s, %v; want another one", name, other.digest, err)
		}
	}
	for _, body := range []string{``, `{}`, `{"choices":[{"message":{"content":"half"}}]}`} {
		if _, err := readAnswer([]byte(body)); err == nil {
			t.Errorf("%q is taken for an answer", body)
		}
	}
}

func TestChildren(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc")
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = child.Wait() }()
	found, err := children(os.Getpid())
	if err != nil || !slices.Contains(found, child.Process.Pid) {
		t.Errorf("children %v, %v; want %d among them", found, err, child.Process.Pid)
	}
	if mb, err := residentMB(os.Getpid()); err != nil || mb < 1 || mb > 10_000 {
		t.Errorf("%d MiB, %v", mb, err)
	}
}
