package pairing

// Finding other Headrooms on the local network, by DNS-SD over multicast DNS (RFC 6762, RFC 6763;
// Apple calls it Bonjour). Nothing is sent unless its user has switched it on.
//
// A shared machine announces the service _headroom._tcp with its name and its port. There is no TXT
// record with more, and the host name is a random one. Whoever is found is a candidate for pairing
// and nothing more: names and addresses on the network can be anybody's.

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pion/logging"
	"github.com/pion/mdns/v2"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"headroom/engine/problem"
)

const (
	serviceType = "_headroom._tcp"
	// browseTime is how long one search listens. Answers come within a fraction of a second.
	browseTime = 1500 * time.Millisecond
	// browseAgain is the time from one search to the next, while somebody looks at the list.
	browseAgain = 5 * time.Second
	// keepFound is how long a machine is listed after its last answer. One may be lost.
	keepFound = 15 * time.Second
	maxFound  = 50
	// interfaceCheck is how often the announcement follows changes of the network interfaces.
	interfaceCheck = 15 * time.Second
	maxLabelBytes  = 63 // of an instance's name; RFC 6763, section 4.1.1
)

// Found is a machine that was found.
type Found struct {
	Name    string
	Address string // host and port
}

// Network is where machines are found. The zero value is the local network.
type Network struct {
	Interfaces []net.Interface // nil: all that have multicast, but loopback
	Loopback   bool            // Interfaces may be loopback's
}

// connect opens the multicast sockets. IPv6 is left out if only4 is set and there is IPv4. The
// error is a Problem.
func (n Network) connect(only4 bool, options ...mdns.ServerOption) (*mdns.Conn, error) {
	failed := func(err error) error {
		return problem.Wrap(problem.LowResources, err,
			"Other machines cannot be found on the local network", "The network or the system "+
				"does not allow multicast. Type the address of the other machine instead.")
	}
	quiet := &logging.DefaultLoggerFactory{Writer: io.Discard,
		DefaultLogLevel: logging.LogLevelDisabled}
	options = append(options, mdns.WithLoggerFactory(quiet))
	if n.Interfaces != nil {
		options = append(options, mdns.WithInterfaces(n.Interfaces...),
			mdns.WithIncludeLoopback(n.Loopback))
	}
	four, err := listenMulticast("udp4", mdns.DefaultAddressIPv4)
	var six *net.UDPConn
	if four == nil || !only4 {
		six, _ = listenMulticast("udp6", mdns.DefaultAddressIPv6)
	}
	if four == nil && six == nil {
		return nil, failed(err)
	}
	var p4 *ipv4.PacketConn
	var p6 *ipv6.PacketConn
	if four != nil {
		p4 = ipv4.NewPacketConn(four)
	}
	if six != nil {
		p6 = ipv6.NewPacketConn(six)
	}
	conn, err := mdns.NewServer(p4, p6, options...)
	if err != nil {
		for _, c := range []*net.UDPConn{four, six} {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, failed(err)
	}
	return conn, nil
}

func listenMulticast(network, address string) (*net.UDPConn, error) {
	a, err := net.ResolveUDPAddr(network, address)
	if err != nil {
		return nil, err
	}
	return net.ListenUDP(network, a)
}

// Announcement is a machine that others can find.
type Announcement struct {
	network Network
	name    string
	host    string
	port    int
	ended   chan struct{}
	stop    func()
}

// Announce lets others find this machine until Close. The error is a Problem.
func Announce(n Network, name string, port int) (*Announcement, error) {
	ctx, stop := context.WithCancel(context.Background())
	a := &Announcement{network: n, name: label(name), host: randomHost(), port: port,
		ended: make(chan struct{}), stop: stop}
	conn, err := a.open()
	if err != nil {
		stop()
		return nil, err
	}
	go a.follow(ctx, conn)
	return a, nil
}

// randomHost returns the name under which the addresses are announced. The machine's own name may
// already be announced by the system.
func randomHost() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return "headroom-" + hex.EncodeToString(b[:]) + ".local"
}

// label returns a name that is short enough for DNS.
func label(name string) string {
	name = cleanName(name)
	for len(name) > maxLabelBytes {
		runes := []rune(name)
		name = string(runes[:len(runes)-1])
	}
	return name
}

func (a *Announcement) open() (*mdns.Conn, error) {
	service := mdns.ServiceInstance{Instance: a.name, Service: serviceType, Host: a.host + ".",
		Port: uint16(a.port)}
	return a.network.connect(false, mdns.WithLocalNames(a.host), mdns.WithService(service))
}

// follow announces the machine anew when the network interfaces have changed.
func (a *Announcement) follow(ctx context.Context, conn *mdns.Conn) {
	defer close(a.ended)
	tick := time.NewTicker(interfaceCheck)
	defer tick.Stop()
	before := interfaces()
	for {
		select {
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
			return
		case <-tick.C:
		}
		now := interfaces()
		if conn != nil && slices.Equal(now, before) {
			continue
		}
		before = now
		if conn != nil {
			_ = conn.Close()
		}
		var err error
		if conn, err = a.open(); err != nil {
			slog.Debug("this machine cannot be announced on the local network", "err", err)
			conn = nil
		}
	}
}

// interfaces returns the addresses of this machine.
func interfaces() (list []string) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		list = append(list, a.String())
	}
	return list
}

// Close ends the announcement.
func (a *Announcement) Close() {
	a.stop()
	<-a.ended
}

// Finder lists other machines. It searches only when it is asked.
type Finder struct {
	network Network
	now     func() time.Time

	mu      sync.Mutex
	seen    map[Found]time.Time // when it was seen last
	err     error               // of the last search
	begun   time.Time           // the last search
	running bool
	ended   sync.WaitGroup

	ctx  context.Context // ends when the finder is closed
	stop func()
}

// NewFinder returns a finder that has found nothing yet.
func NewFinder(n Network) *Finder {
	ctx, stop := context.WithCancel(context.Background())
	return &Finder{network: n, now: time.Now, seen: map[Found]time.Time{}, ctx: ctx, stop: stop}
}

// Found returns the machines that were found in the last searches, and starts a search unless the
// last one was a moment ago. err, a Problem, says why nothing can be found.
func (f *Finder) Found() (list []Found, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if !f.running && f.ctx.Err() == nil && now.Sub(f.begun) >= browseAgain {
		f.running, f.begun = true, now
		f.ended.Go(f.search)
	}
	for m, at := range f.seen {
		if now.Sub(at) >= keepFound {
			delete(f.seen, m)
			continue
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Found) int {
		return strings.Compare(a.Name+"\x00"+a.Address, b.Name+"\x00"+b.Address)
	})
	return list, f.err
}

// Close ends the searches.
func (f *Finder) Close() {
	f.mu.Lock() // no search begins after this
	f.stop()
	f.mu.Unlock()
	f.ended.Wait()
}

// search searches once.
func (f *Finder) search() {
	err := f.browse()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running, f.err = false, err
}

func (f *Finder) browse() error {
	// An answer has one address. That of IPv4 needs no zone, and can be read out and typed.
	conn, err := f.network.connect(true, mdns.WithQueryInterval(browseTime/3))
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.OnServiceDiscovered(func(e mdns.ServiceEvent) { f.note(e) })
	ctx, stop := context.WithTimeout(f.ctx, browseTime)
	defer stop()
	if err := conn.Browse(ctx, serviceType); err != nil {
		return problem.Wrap(problem.LowResources, err,
			"Other machines cannot be found on the local network", "Type the address of the other "+
				"machine instead.")
	}
	<-ctx.Done()
	return nil
}

// note stores a machine that has answered. What it says of itself can be anything.
func (f *Finder) note(e mdns.ServiceEvent) {
	m, ok := foundIn(e.Instance.Instance, e.Addr, e.Instance.Port)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.seen[m]; known || len(f.seen) < maxFound {
		f.seen[m] = f.now()
	}
}

// foundIn returns the machine in an answer.
func foundIn(name string, address netip.Addr, port uint16) (Found, bool) {
	if !address.IsValid() || address.IsUnspecified() || address.IsMulticast() || port == 0 ||
		address.Zone() != "" { // an address with a zone is another machine's elsewhere
		return Found{}, false
	}
	return Found{Name: cleanName(name),
		Address: net.JoinHostPort(address.Unmap().String(), strconv.Itoa(int(port)))}, true
}
