package hub

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"headroom/app/jobs"
	"headroom/engine/problem"
)

func TestReach(t *testing.T) {
	for text, want := range map[string]reach{
		"1.1.1.1": public, "172.32.0.1": public, "100.128.0.1": public, "2606:4700::1": public,
		"::ffff:8.8.8.8": public, "64:ff9b::808:808": public, "2002:808:808::1": public,
		"127.0.0.1": loopback, "127.255.0.9": loopback, "::1": loopback,
		"::ffff:127.0.0.1": loopback, "64:ff9b::7f00:1": loopback, "2002:7f00:1::": loopback,
		"::ffff:0:7f00:1": loopback,
		"10.1.2.3":        private, "172.16.0.1": private, "172.31.255.255": private,
		"192.168.1.1": private, "100.64.0.1": private, "100.127.255.255": private,
		"198.18.0.1": private, "fc00::1": private, "fdff::1": private, "fec0::1": private,
		"::ffff:192.168.0.1": private, "64:ff9b::a00:1": private, "64:ff9b:1::1": private,
		"169.254.169.254": linkLocal, "fe80::1": linkLocal, "fe80::1%eth0": linkLocal,
		"febf::1": linkLocal, "::ffff:169.254.0.1": linkLocal, "64:ff9b::a9fe:a9fe": linkLocal,
		"0.0.0.0": special, "0.1.2.3": special, "::": special, "::7f00:1": special,
		"224.0.0.1": special, "255.255.255.255": special, "240.0.0.1": special,
		"192.0.2.1": special, "ff02::1": special, "2001:db8::1": special, "2001::1": special,
	} {
		if got := reachOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s has the reach %d, want %d", text, got, want)
		}
	}
}

// TestGuard: what is allowed depends on where the hub's own name leads. Nothing is dialled.
func TestGuard(t *testing.T) {
	const hub, other = "hub.example:443", "files.example:443"
	for _, c := range []struct {
		hub, other string // where the names lead
		want       bool
	}{
		{"1.1.1.1", "8.8.8.8", true},
		{"1.1.1.1", "127.0.0.1", false},
		{"1.1.1.1", "10.0.0.1", false},
		{"1.1.1.1", "169.254.169.254", false},
		{"1.1.1.1", "::ffff:10.0.0.1", false},
		{"1.1.1.1", "0.0.0.0", false},
		{"10.0.0.1", "10.9.9.9", true},
		{"10.0.0.1", "8.8.8.8", true},
		{"10.0.0.1", "127.0.0.1", false},
		{"10.0.0.1", "169.254.169.254", false},
		{"127.0.0.1", "::1", true},
		{"127.0.0.1", "192.168.0.1", false},
	} {
		g := newGuard(&url.URL{Scheme: "https", Host: "HUB.example"})
		at := func(ip string) netip.AddrPort {
			return netip.AddrPortFrom(netip.MustParseAddr(ip), 443)
		}
		if err := g.check(hub, at(c.hub)); err != nil {
			t.Errorf("the hub at %s: %v", c.hub, err)
		}
		if err := g.check(other, at(c.other)); (err == nil) != c.want {
			t.Errorf("from the hub at %s to %s: %v", c.hub, c.other, err)
		}
		literal := &url.URL{Scheme: "https", Host: at(c.other).String()}
		if err := g.checkURL(literal); (err == nil) != c.want {
			t.Errorf("from the hub at %s to %s: %v", c.hub, literal, err)
		}
		g.proxies.Store(other, true)
		if err := g.check(other, at(c.other)); err != nil {
			t.Errorf("a proxy at %s: %v", c.other, err)
		}
	}
}

// TestRedirectInside: a redirect to an address that the hub is not at is refused before anything is
// sent, by name and by number, and is not tried again. The fake hub counts as public.
func TestRedirectInside(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost"} {
		f := newFakeHub(t, model())
		f.cdn.URL = strings.Replace(f.cdn.URL, "127.0.0.1", host, 1)
		c := f.client()
		c.guard.reach = func(at netip.AddrPort) reach {
			if at.String() == c.guard.endpoint {
				return public
			}
			return reachOf(at.Addr())
		}
		_, err := c.Download(context.Background(), Request{ID: "o/m"}, new(jobs.Progress))
		if problem.From(err).Code != problem.Upstream || !errors.Is(err, errInside) {
			t.Errorf("%s: error %v", host, err)
		}
		f.mu.Lock()
		requests := slices.Clone(f.requests)
		f.mu.Unlock()
		for _, r := range requests {
			if strings.HasPrefix(r, "CDN ") {
				t.Errorf("%s: the other server received %q", host, r)
			}
		}
		if len(f.slept) > 0 {
			t.Errorf("%s: tried %d times more", host, len(f.slept))
		}
	}
}
