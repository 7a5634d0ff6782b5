package cluster

// What is checked before a cluster starts: that each host can be reached, runs the same Headroom
// and has the same model, and that the hosts reach one another.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/engine/problem"
)

// peers are the nodes of a cluster: one for each machine. Ranks on one machine share one.
type peers struct {
	hosts []Host  // by rank
	nodes []*peer // by rank
	facts []*Facts
}

// machines returns the ranks that are the first on their machines.
func (p *peers) machines() []int {
	var first []int
	for r, n := range p.nodes {
		if slices.Index(p.nodes, n) == r {
			first = append(first, r)
		}
	}
	return first
}

// connectAll connects to the hosts, and asks for their facts. The error is a Problem.
func connectAll(ctx context.Context, s Shell, hosts []Host) (*peers, error) {
	p := &peers{hosts, make([]*peer, len(hosts)), make([]*Facts, len(hosts))}
	for r, h := range hosts {
		for before := range r {
			if hosts[before].String() == h.String() {
				p.nodes[r] = p.nodes[before]
			}
		}
		if p.nodes[r] == nil {
			n, err := connect(s, h)
			if err != nil {
				p.close()
				return nil, err
			}
			p.nodes[r] = n
		}
	}
	err := p.each(func(r int) error {
		answer, err := p.nodes[r].call(ctx, request{Op: opFacts}, nil)
		if err != nil {
			return err
		}
		p.facts[r] = answer.Facts
		return nil
	})
	if err == nil {
		for r, n := range p.nodes {
			p.facts[r] = p.facts[slices.Index(p.nodes, n)]
		}
		err = p.sameVersion()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// each calls f at once for the first rank of every machine. The error is that of the lowest rank.
func (p *peers) each(f func(rank int) error) error {
	first := p.machines()
	errs := make([]error, len(first))
	var wait sync.WaitGroup
	for i, r := range first {
		wait.Go(func() { errs[i] = f(r) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *peers) close() {
	_ = p.each(func(r int) error {
		if p.nodes[r] != nil {
			p.nodes[r].close()
		}
		return nil
	})
}

// sameVersion refuses hosts with another protocol or other packages.
func (p *peers) sameVersion() error {
	for r, f := range p.facts {
		if a := p.facts[0]; f.Protocol != protocol || f.Packages != a.Packages {
			return problem.New(problem.BadRequest, "The versions of Headroom differ",
				fmt.Sprintf("%s has %s, and %s has %s", p.hosts[0], a.Version, p.hosts[r],
					f.Version), otherVersion)
		}
	}
	return nil
}

// Link is a connection from one rank's machine to the address of another's.
type Link struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Address string  `json:"address"`
	Ms      float64 `json:"ms"` // to connect; negative: it was not reached
}

// chooseIPs returns an address of each rank that all other machines reach, and all links that were
// tried. The error is a Problem.
func (p *peers) chooseIPs(ctx context.Context) (ips []string, links []Link, err error) {
	ips = make([]string, len(p.hosts))
	first := p.machines()
	if len(first) == 1 {
		for r := range ips {
			ips[r] = "127.0.0.1"
		}
		return ips, nil, nil
	}
	for _, r := range first {
		ip, tried, err := p.chooseIP(ctx, r)
		links = append(links, tried...)
		if err != nil {
			return nil, links, err
		}
		for other, n := range p.nodes {
			if n == p.nodes[r] {
				ips[other] = ip
			}
		}
	}
	return ips, links, nil
}

func (p *peers) chooseIP(ctx context.Context, r int) (ip string, links []Link, err error) {
	candidates := p.candidates(ctx, r)
	if len(candidates) == 0 {
		return "", nil, badHosts("%s has no IPv4 address but loopback",
			"Connect it to the network, or name its addresses in a host file.", p.hosts[r])
	}
	answer, err := p.nodes[r].call(ctx, request{Op: opListen, Addresses: candidates}, nil)
	if err != nil {
		return "", nil, err
	}
	defer func() { _, _ = p.nodes[r].call(ctx, request{Op: opClose}, nil) }()
	addresses := make([]string, len(candidates))
	for i := range candidates {
		addresses[i] = fmt.Sprintf("%s:%d", candidates[i], answer.Ports[i])
	}
	reached := make([]int, len(candidates)) // by how many machines
	others := 0
	for _, from := range p.machines() {
		if from == r {
			continue
		}
		others++
		answer, err := p.nodes[from].call(ctx, request{Op: opDial, Addresses: addresses}, nil)
		if err != nil {
			return "", links, err
		}
		for i, ms := range answer.Ms {
			links = append(links, Link{p.hosts[from].String(), p.hosts[r].String(), candidates[i],
				ms})
			if ms >= 0 {
				reached[i]++
			}
		}
	}
	for i, n := range reached {
		if n == others {
			return candidates[i], links, nil
		}
	}
	return "", links, problem.New(problem.Unresponsive, "The machines do not reach one another",
		fmt.Sprintf("no address of %s accepts connections from all others: %s were tried",
			p.hosts[r], strings.Join(candidates, ", ")), "Put them into one network, let their "+
			"firewalls accept incoming connections of Headroom and Python, or name addresses in a "+
			"host file.")
}

// candidates returns the addresses of a host, the best first: those of the host file, or that of
// its name for ssh and then those of its interfaces.
func (p *peers) candidates(ctx context.Context, r int) []string {
	h := p.hosts[r]
	if len(h.IPs) > 0 {
		return h.IPs
	}
	own := slices.Clone(p.facts[r].Addresses)
	_, name, found := strings.Cut(h.SSH, "@")
	if !found {
		name = h.SSH
	}
	named, _ := net.DefaultResolver.LookupNetIP(ctx, "ip4", name)
	slices.SortStableFunc(own, func(a, b string) int {
		return rankIP(a, named) - rankIP(b, named)
	})
	return own
}

// rankIP is lower for a better address: that of the name, then others, then link-local ones.
func rankIP(ip string, named []netip.Addr) int {
	a, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return 1
	case slices.ContainsFunc(named, func(b netip.Addr) bool { return b.Unmap() == a }):
		return 0
	case a.IsLinkLocalUnicast():
		return 2
	}
	return 1
}

// ports returns a free port of each rank, on its address. Another program may take one before the
// rank listens; the cluster then starts again, with others.
func (p *peers) ports(ctx context.Context, ips []string) ([]int, error) {
	ports := make([]int, len(ips))
	for _, r := range p.machines() {
		var ranks []int
		var on []string
		for other, n := range p.nodes {
			if n == p.nodes[r] {
				ranks, on = append(ranks, other), append(on, ips[other])
			}
		}
		answer, err := p.nodes[r].call(ctx, request{Op: opListen, Addresses: on}, nil)
		if err != nil {
			return nil, err
		}
		if _, err := p.nodes[r].call(ctx, request{Op: opClose}, nil); err != nil {
			return nil, err
		}
		for i, other := range ranks {
			ports[other] = answer.Ports[i]
		}
	}
	return ports, nil
}

// freePort returns a free port on loopback of a rank's machine.
func (p *peers) freePort(ctx context.Context, r int) (int, error) {
	answer, err := p.nodes[r].call(ctx, request{Op: opListen, Addresses: []string{"127.0.0.1"}},
		nil)
	if err != nil {
		return 0, err
	}
	_, err = p.nodes[r].call(ctx, request{Op: opClose}, nil)
	return answer.Ports[0], err
}

// links are listeners on the ring's addresses, one for each machine, for as long as a run lives.
type links struct {
	peers     *peers
	machines  []int
	addresses []string // by machine
}

// listenLinks opens the listeners. It comes after ports, which closes all listeners of a node.
func (p *peers) listenLinks(ctx context.Context, ips []string) (*links, error) {
	l := &links{peers: p, machines: p.machines()}
	if len(l.machines) == 1 {
		return l, nil
	}
	for _, r := range l.machines {
		answer, err := p.nodes[r].call(ctx, request{Op: opListen, Addresses: ips[r : r+1]}, nil)
		if err != nil {
			return nil, err
		}
		l.addresses = append(l.addresses, fmt.Sprintf("%s:%d", ips[r], answer.Ports[0]))
	}
	return l, nil
}

// linkTries is how often in a row a link is not reached before it counts as broken.
const linkTries = 3

// watch connects from every machine to the next one until ctx ends, or a link is broken: the error
// is a Problem then. The ring's own connections do not notice a cable that is pulled.
func (l *links) watch(ctx context.Context, every time.Duration) error {
	failed := make([]int, len(l.addresses))
	for len(l.addresses) > 0 {
		for i, r := range l.machines {
			next := (i + 1) % len(l.machines)
			answer, err := l.peers.nodes[r].call(ctx, request{Op: opDial,
				Addresses: l.addresses[next : next+1]}, nil)
			if err != nil {
				return nil // its node has ended, which says more
			}
			if failed[i]++; answer.Ms[0] >= 0 {
				failed[i] = 0
			}
			if failed[i] == linkTries {
				return problem.New(problem.Unresponsive, fmt.Sprintf(
					"The cluster's link from %s to %s is broken", l.peers.hosts[r],
					l.peers.hosts[l.machines[next]]), "it does not reach "+l.addresses[next],
					"Check cables and network.")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
	return nil
}
