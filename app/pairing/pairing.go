// Package pairing lets one Headroom use another one's engines, and nobody else.
//
// A machine that others may use listens on a port of its own, which is closed until its user
// switches it on. Everything there is TLS 1.3, and both sides show a certificate. A client whose
// certificate no pairing has made known is refused in the handshake, so a stranger learns the
// server's public key and nothing else: no name, no version, no model. Only while the server shows
// a code do strangers get as far as HTTP, and there to the pairing alone.
//
// To pair, one machine shows a code of eight digits, and a person types it on the other. Both run
// SPAKE2 with it. The names in its transcript are the fingerprints of the two certificates, as each
// side has seen them in its TLS handshake: a man in the middle would have to show a certificate of
// his own, so the sides would not agree. A code is good for two minutes and one pairing, and three
// exchanges may begin with it. So a guesser succeeds once in 33 million codes that are shown.
//
// The side that showed the code then makes an API key that belongs to the other one's certificate
// (see keys.AddPaired) and sends it, sealed with the secret of SPAKE2. The other side stores it
// with the fingerprint of the server's certificate, and accepts no other certificate from then on.
//
//	identity.go  a machine's certificate and its private key
//	code.go      codes, and how often they may be tried
//	spake2.go    the exchange
//	messages.go  what the two sides send
//	server.go    the side that shows the code, and what paired machines may reach
//	port.go      the port, whose connections are TLS
//	join.go      the side on which the code is typed
//	find.go      other machines on the local network
package pairing

import (
	"net"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// Port is the port for other machines, unless another one is set.
const Port = 11812

// maxNameRunes is the length of a machine's name; see machines.Machine.
const maxNameRunes = 48

// MachineName returns the name by which this machine introduces itself.
func MachineName() string {
	name, err := os.Hostname()
	if err != nil {
		return "machine"
	}
	return cleanName(name)
}

// cleanName returns the name that a machine gives itself, without what cannot stand in one. The
// other machine chooses that name, so it can be anything.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar || strings.ContainsRune(`@/\"`, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	name = strings.TrimSuffix(strings.TrimSpace(name), ".local")
	if runes := []rune(name); len(runes) > maxNameRunes {
		name = strings.TrimSpace(string(runes[:maxNameRunes]))
	}
	if name == "" {
		return "machine"
	}
	return name
}

// maxAddresses is how many addresses of this machine a person has to choose from.
const maxAddresses = 4

// Addresses returns what may be typed on another machine to reach this one's port: its IPv4
// addresses, or that which it listens on. The port is left out if it is the usual one.
func Addresses(listen string, port int) []string {
	with := func(host string) string {
		if port == Port {
			return host
		}
		return net.JoinHostPort(host, strconv.Itoa(port))
	}
	if ip := net.ParseIP(listen); listen != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{with(listen)}
	}
	list := []string{}
	all, _ := net.InterfaceAddrs() // without them, none is shown
	for _, a := range all {
		network, ok := a.(*net.IPNet)
		if ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() &&
			len(list) < maxAddresses {
			list = append(list, with(network.IP.String()))
		}
	}
	return list
}
