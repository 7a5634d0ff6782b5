package pairing

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"headroom/app/machines"
	"headroom/engine/guard"
	"headroom/engine/problem"
)

// Keys are the API keys of paired machines. *keys.Store implements them.
type Keys interface {
	Certified(certificate string) bool
	FindPaired(key, certificate string) *guard.Caller
	// Make makes a key for a machine, which replaces an earlier one of the certificate.
	Make(machine, certificate string) (key string, err error)
}

// Options configure a Server. All fields but Add and Now are required.
type Options struct {
	Identity *Identity
	Name     string // of this machine
	Keys     Keys
	// Endpoint answers the requests of paired machines. Their context has the caller. It must have
	// nothing that only the owner of this machine may use.
	Endpoint http.Handler
	// Refuse answers the request of a paired machine whose key is missing or wrong.
	Refuse guard.Refuse
	// Add stores a machine whose engines this one may use from now on; nil: this one uses no
	// others.
	Add func(m machines.Machine, key string) error
	Now func() time.Time // nil: time.Now
}

// Server is the port for other machines: it pairs, and lets paired machines use the endpoint. It is
// an http.Handler for connections with its TLS configuration.
type Server struct {
	o Options

	mu    sync.Mutex
	offer *offer // nil: no code was shown yet
}

// NewServer returns a server that shows no code yet.
func NewServer(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{o: o}
}

// Show returns a new code, which replaces an earlier one. both says that this machine would like to
// use the other one's engines, too.
func (s *Server) Show(both bool) Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offer = &offer{code: newCode(), expires: s.o.Now().Add(codeTime), tries: maxTries,
		phase: Open, both: both && s.o.Add != nil, exchanges: map[string]*exchange{}}
	return s.state()
}

// Hide ends the code that is shown, if any.
func (s *Server) Hide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offer.at(s.o.Now()) == Open {
		s.offer.end(Void)
	}
}

// Offer returns the code that is shown, or what has become of the last one.
func (s *Server) Offer() Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

func (s *Server) state() Offer {
	phase := s.offer.at(s.o.Now())
	if phase == NoCode {
		return Offer{}
	}
	return Offer{Phase: phase, Code: s.offer.code, Expires: s.offer.expires, Tries: s.offer.tries,
		Machine: s.offer.machine}
}

// open reports whether a code is shown.
func (s *Server) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer.at(s.o.Now()) == Open
}

var errStranger = errors.New("no machine with this certificate was paired")

// TLS returns the configuration of the port. A stranger gets no further than the handshake, unless
// a code is shown. There are no session tickets: each connection shows its certificate.
func (s *Server) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{s.o.Identity.Certificate},
		ClientAuth:   tls.RequireAnyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			if peer := peerOf(&state); peer == "" || !s.o.Keys.Certified(peer) && !s.open() {
				return errStranger
			}
			return nil
		}}
}

// ServeHTTP answers a pairing, or passes the request of a paired machine to the endpoint. To others
// there is nothing here.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer := peerOf(r.TLS)
	certified := s.o.Keys.Certified(peer)
	switch post := r.Method == http.MethodPost; {
	case peer == "":
		nothing(w)
	case r.URL.Path == pathPair && post:
		s.hello(w, r, peer)
	case r.URL.Path == pathConfirm && post:
		s.confirm(w, r, peer)
	case !certified:
		nothing(w)
	case r.URL.Path == pathBack && post:
		s.authorized(peer, http.HandlerFunc(s.back)).ServeHTTP(w, r)
	default:
		s.authorized(peer, s.o.Endpoint).ServeHTTP(w, r)
	}
}

// nothing is the answer to strangers.
func nothing(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusNotFound)
}

// certified are the keys that pass on the connections of one certificate.
type certified struct {
	keys Keys
	peer string
}

func (certified) Any() bool                       { return true }
func (c certified) Find(key string) *guard.Caller { return c.keys.FindPaired(key, c.peer) }

// authorized wraps a handler with the check of the key.
func (s *Server) authorized(peer string, next http.Handler) http.Handler {
	access := &guard.Guard{Keys: certified{s.o.Keys, peer}}
	return access.Key(s.o.Refuse, next)
}

// hello begins an exchange.
func (s *Server) hello(w http.ResponseWriter, r *http.Request, peer string) {
	var m helloMessage
	malformed := decode(r.Body, &m)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.offer.at(s.o.Now()) != Open || s.offer.tries <= 0:
		nothing(w)
		return
	case malformed != nil:
		send(w, http.StatusBadRequest, refusal{refusedMalformed})
		return
	case m.Version != protocol:
		send(w, http.StatusBadRequest, refusal{refusedVersion})
		return
	}
	s.offer.tries--
	p, err := newParty(false, s.offer.code, namesOf(peer, s.o.Identity.Fingerprint))
	if err != nil {
		slog.Error("a pairing failed", "err", err)
		send(w, http.StatusInternalServerError, refusal{refusedFailed})
		return
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	id := hex.EncodeToString(b[:])
	s.offer.exchanges[id] = &exchange{party: p, peer: peer, share: m.Share}
	send(w, http.StatusOK, helloReply{Version: protocol, Exchange: id, Share: p.share})
}

// confirm ends an exchange. If the other side has the code, it gets a key.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request, peer string) {
	var m confirmMessage
	malformed := decode(r.Body, &m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offer.at(s.o.Now()) != Open {
		nothing(w)
		return
	}
	e := s.offer.exchanges[m.Exchange]
	if malformed != nil || e == nil || !equal(e.peer, peer) {
		send(w, http.StatusBadRequest, refusal{refusedMalformed})
		return
	}
	delete(s.offer.exchanges, m.Exchange) // it ends here in any case
	a, err := e.party.finish(e.share)
	if err != nil || !a.confirms(m.Confirm) {
		slog.Warn("a machine tried to pair with a wrong code", "address", r.RemoteAddr,
			"tries_left", s.offer.tries)
		send(w, http.StatusForbidden, refusal{refusedCode})
		return
	}
	var who introduction
	if err := a.open(fromA, m.Sealed, &who); err != nil {
		send(w, http.StatusBadRequest, refusal{refusedMalformed})
		return
	}
	name := cleanName(who.Name)
	o := s.offer
	o.end(Void) // the code is used, also if what follows fails
	key, err := s.o.Keys.Make(name, peer)
	if err != nil {
		slog.Error("a pairing could not be stored", "err", err)
		send(w, http.StatusInternalServerError, refusal{refusedFailed})
		return
	}
	o.phase, o.machine, o.peer = Paired, name, peer
	slog.Info("a machine was paired", "machine", name, "address", r.RemoteAddr,
		"certificate", Short(peer))
	send(w, http.StatusOK, confirmReply{Confirm: a.mine,
		Sealed: a.seal(fromB, grant{Name: s.o.Name, Key: key, Both: o.both})})
}

// back stores the other machine as one whose engines this one may use: once for each pairing in
// both directions, before its code would have expired.
func (s *Server) back(w http.ResponseWriter, r *http.Request) {
	var m backMessage
	if decode(r.Body, &m) != nil || m.Port < 1 || m.Port > 65535 || m.Key == "" {
		send(w, http.StatusBadRequest, refusal{refusedMalformed})
		return
	}
	s.mu.Lock()
	o, now, peer := s.offer, s.o.Now(), peerOf(r.TLS)
	allowed := o.at(now) == Paired && o.both && equal(o.peer, peer) && now.Before(o.expires)
	name := ""
	if allowed {
		o.both, name = false, o.machine
	}
	s.mu.Unlock()
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if !allowed || err != nil {
		nothing(w)
		return
	}
	err = s.o.Add(Machine(name, net.JoinHostPort(host, strconv.Itoa(m.Port)), peer), m.Key)
	if err != nil {
		slog.Error("the machine that was paired could not be stored", "machine", name, "err", err)
		send(w, http.StatusInternalServerError, refusal{refusedFailed})
		return
	}
	slog.Info("the engines of a paired machine can be used here", "machine", name)
	w.WriteHeader(http.StatusNoContent)
}

// Machine returns what is stored of a machine that was paired. Its ID comes from its certificate,
// so pairing again replaces it. address is a host and a port; an IPv6 address may have a zone.
func Machine(name, address, certificate string) machines.Machine {
	return machines.Machine{ID: certificate[:min(len(certificate), 16)], Name: cleanName(name),
		Kind: machines.Headroom, URL: baseURL(address), Certificate: certificate, Paired: true}
}

// baseURL returns the URL of a host and a port. It has "%25" before the zone of an IPv6 address,
// as RFC 6874 says.
func baseURL(address string) string {
	return (&url.URL{Scheme: "https", Host: address}).String()
}

// Store adds a paired machine to a store. If another machine has its name, it gets one of the
// store. The error is a Problem.
func Store(to *machines.Store, m machines.Machine, key string) (machines.Machine, error) {
	stored, err := to.Add(m, key)
	if p := problem.From(err); err != nil && p.Code == problem.Exists {
		m.Name = ""
		stored, err = to.Add(m, key)
	}
	return stored, err
}
