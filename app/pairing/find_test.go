package pairing

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"headroom/engine/problem"
)

// loopback is a network of this machine alone.
func loopback(t *testing.T) Network {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return Network{Interfaces: []net.Interface{i}, Loopback: true}
		}
	}
	t.Skip("there is no loopback interface")
	return Network{}
}

// await asks the finder until the list has n machines.
func await(t *testing.T, f *Finder, n int) []Found {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		f.mu.Lock()
		f.begun = time.Time{} // search at once
		f.mu.Unlock()
		list, err := f.Found()
		switch {
		case err != nil:
			t.Skipf("no multicast here: %v", err)
		case len(list) == n:
			return list
		case time.Now().After(deadline):
			t.Fatalf("found %v, want %d", list, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestFind: two machines announce themselves, and are found until they are gone.
func TestFind(t *testing.T) {
	n := loopback(t)
	first, err := Announce(n, "Anna's Büro.1", 11812)
	if err != nil {
		t.Skip(err)
	}
	second, err := Announce(n, "studio.local", 99)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFinder(n)
	defer f.Close()
	list := await(t, f, 2)
	if list[0].Name != "Anna's Büro.1" || !strings.HasSuffix(list[0].Address, ":11812") ||
		list[1].Name != "studio" || !strings.HasSuffix(list[1].Address, ":99") {
		t.Errorf("found %v", list)
	}
	first.Close()
	second.Close()
	f.mu.Lock()
	f.now = func() time.Time { return time.Now().Add(keepFound) }
	f.mu.Unlock()
	await(t, f, 0)
}

// TestNoMulticast: without an interface there is a sentence.
func TestNoMulticast(t *testing.T) {
	n := Network{Interfaces: []net.Interface{}}
	if a, err := Announce(n, "studio", 1); err == nil {
		a.Close()
		t.Error("announced nowhere")
	} else {
		wantProblem(t, err, problem.LowResources, "Type the address")
	}
	f := NewFinder(n)
	defer f.Close()
	if _, err := f.Found(); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := f.Found(); err != nil {
			wantProblem(t, err, problem.LowResources, "Type the address")
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no sentence")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestFoundIn: what machines say of themselves is cleaned, and their number is limited.
func TestFoundIn(t *testing.T) {
	for _, c := range []struct {
		name, address string
		port          uint16
		want          Found
	}{
		{"a\x1b[31m/b", "10.0.0.1", 5, Found{"a[31mb", "10.0.0.1:5"}},
		{"", "fd00::1", 5, Found{"machine", "[fd00::1]:5"}},
		{"a", "fe80::1%eth0", 5, Found{}},
		{"a", "::ffff:10.0.0.1", 5, Found{"a", "10.0.0.1:5"}},
		{"a", "10.0.0.1", 0, Found{}},
		{"a", "0.0.0.0", 5, Found{}},
		{"a", "224.0.0.1", 5, Found{}},
	} {
		got, ok := foundIn(c.name, netip.MustParseAddr(c.address), c.port)
		if got != c.want || ok != (c.want != Found{}) {
			t.Errorf("%q at %s is %v, want %v", c.name, c.address, got, c.want)
		}
	}
	if _, ok := foundIn("a", netip.Addr{}, 5); ok {
		t.Error("found without an address")
	}
	if got := label(strings.Repeat("é", 48)); len(got) > maxLabelBytes || len(got) < 60 {
		t.Errorf("the label is %q", got)
	}
}
