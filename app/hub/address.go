package hub

// Which addresses a hub may redirect to. A hostile hub could otherwise make this machine send
// requests to its own programs, to the router or to a cloud's metadata service. The resolved
// address is checked when a connection is opened, because a name can lead anywhere.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"headroom/engine/problem"
)

// reach says from where an address can be reached. Values are bits of a set.
type reach uint32

const (
	public    reach = 1 << iota
	private         // of this network, also behind a carrier's or a proxy's translation
	linkLocal       // of this link, such as a cloud's metadata service
	loopback        // of this machine
	special         // multicast, reserved, unspecified, documentation
)

// reaches lists the prefixes that are not public. https://www.iana.org/assignments/
// iana-ipv4-special-registry and iana-ipv6-special-registry. The first that contains an address
// counts.
var reaches = []struct {
	reach    reach
	prefixes string
}{
	{loopback, "127.0.0.0/8 ::1/128"},
	{private, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 198.18.0.0/15 fc00::/7 " +
		"fec0::/10 64:ff9b:1::/48"},
	{linkLocal, "169.254.0.0/16 fe80::/10"},
	{special, "0.0.0.0/8 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.51.100.0/24 203.0.113.0/24 " +
		"224.0.0.0/4 240.0.0.0/4 ::/96 100::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16 " +
		"ff00::/8"},
}

// Prefixes whose addresses contain an IPv4 address, and its offset in bytes.
var embeddings = []struct {
	prefix netip.Prefix
	offset int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
}

// reachOf returns the reach of an address. Forms of IPv6 that contain an IPv4 address have its
// reach.
func reachOf(ip netip.Addr) reach {
	ip = ip.Unmap().WithZone("")
	for _, e := range embeddings {
		if e.prefix.Contains(ip) {
			b := ip.As16()
			return reachOf(netip.AddrFrom4([4]byte(b[e.offset:])))
		}
	}
	for _, r := range reaches {
		for text := range strings.FieldsSeq(r.prefixes) {
			if netip.MustParsePrefix(text).Contains(ip) {
				return r.reach
			}
		}
	}
	return public
}

// errInside means that a redirect leads to an address that the hub itself is not at.
var errInside = errors.New("the address is not a public one")

// guard keeps redirects from addresses inside this machine or network, unless the hub itself is
// there: a mirror in a company may store its files on another server of the same network.
type guard struct {
	endpoint string                     // host:port of the hub
	reach    func(netip.AddrPort) reach // reachOf, but for tests
	allowed  atomic.Uint32              // set of reach; those of the hub's addresses, and public
	proxies  sync.Map                   // host:port of proxies, which the user has configured
}

func newGuard(endpoint *url.URL) *guard {
	g := &guard{endpoint: hostPort(endpoint),
		reach: func(at netip.AddrPort) reach { return reachOf(at.Addr()) }}
	g.allowed.Store(uint32(public))
	return g
}

// hostPort returns the host and port of an address, in lower case.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// transport returns a transport that dials through the guard.
func (g *guard) transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = g.dial
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		u, err := http.ProxyFromEnvironment(r)
		if u != nil {
			g.proxies.Store(hostPort(u), true)
		}
		return u, err
	}
	return t
}

// dial opens a connection. It checks the resolved address before anything is sent.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second,
		Control: func(_, resolved string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return fmt.Errorf("%w: %s", errInside, resolved)
			}
			return g.check(strings.ToLower(address), at)
		}}
	return d.DialContext(ctx, network, address)
}

// check decides whether a connection to address, "host:port", may be opened at a resolved address.
func (g *guard) check(address string, at netip.AddrPort) error {
	r := g.reach(at)
	if address == g.endpoint {
		g.allowed.Or(uint32(r))
		return nil
	}
	if _, ok := g.proxies.Load(address); ok || g.allowed.Load()&uint32(r) != 0 {
		return nil
	}
	return fmt.Errorf("%w: %s leads to %s", errInside, address, at.Addr())
}

// checkURL checks an address without resolving its name. It covers requests through a proxy, which
// resolves names itself.
func (g *guard) checkURL(u *url.URL) error {
	address := hostPort(u)
	if at, err := netip.ParseAddrPort(address); err == nil {
		if address != g.endpoint && g.allowed.Load()&uint32(g.reach(at)) == 0 {
			return fmt.Errorf("%w: %s", errInside, address)
		}
	}
	return nil
}

// inside returns the Problem of a refused redirect.
func inside(err error) error {
	return problem.Wrap(problem.Upstream, err,
		"The hub redirects to an address inside this network",
		"Choose another mirror. If this one is yours, give Headroom the address to which it "+
			"redirects.")
}
