package pairing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/app/keys"
	"headroom/app/machines"
	"headroom/engine/guard"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// identity returns a new identity.
func identity(t testing.TB) *Identity {
	t.Helper()
	key := seal.NewKey()
	id, err := OpenIdentity(t.TempDir(), func() (seal.Key, error) { return key, nil })
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// storedKeys are the keys of a store.
type storedKeys struct{ *keys.Store }

func (s storedKeys) Make(machine, certificate string) (string, error) {
	_, text, err := s.AddPaired(machine, certificate)
	return text, err
}

// side is a machine with a port for others. Its endpoint answers with the caller's name.
type side struct {
	*Server
	id      *Identity
	keys    *keys.Store
	address string
	added   map[string]machines.Machine // by their key

	mu  sync.Mutex
	now time.Time
}

func (s *side) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *side) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func newSide(t testing.TB, name string) *side {
	t.Helper()
	store, err := keys.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &side{id: identity(t), keys: store, added: map[string]machines.Machine{},
		now: time.Unix(1e9, 0)}
	s.Server = NewServer(Options{Identity: s.id, Name: name, Keys: storedKeys{store},
		Endpoint: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "the endpoint answers %s", guard.CallerOf(r).Name)
		}),
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, problem.From(err).Message, http.StatusUnauthorized)
		},
		Add: func(m machines.Machine, key string) error { s.added[key] = m; return nil },
		Now: s.clock})
	s.address = listen(t, s.Server, s.TLS())
	return s
}

// listen serves a handler over TLS until the test ends, and returns its address.
func listen(t testing.TB, h http.Handler, config *tls.Config) string {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = served.Serve(Listener(raw, config)) }()
	t.Cleanup(func() { _ = served.Close() })
	return raw.Addr().String()
}

// join pairs a machine with this identity.
func join(t testing.TB, id *Identity, address, code string) (Joined, error) {
	t.Helper()
	return Join(t.Context(), Joining{Identity: id, Name: "laptop.local", Address: address,
		Code: code})
}

// use sends a request to a paired machine and returns the status and the body, or why it failed.
func use(t testing.TB, id *Identity, m machines.Machine, key string) (int, string, error) {
	t.Helper()
	client := machines.ClientAs(m, func() (*tls.Certificate, error) {
		if id == nil {
			return &tls.Certificate{}, nil
		}
		return &id.Certificate, nil
	})
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(context.Background(), "GET", m.URL+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// wantProblem fails the test unless err is a Problem with this code and a text in it.
func wantProblem(t testing.TB, err error, code problem.Code, text string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	p := problem.From(err)
	if p.Code != code || !strings.Contains(p.Message+p.Why+p.Fix, text) {
		t.Errorf("%s: %s (%s) %s, want %s with %q", p.Code, p.Message, p.Why, p.Fix, code, text)
	}
}

// counting makes no keys, but counts them.
type counting struct{ made *int }

func (counting) Certified(string) bool                   { return false }
func (counting) FindPaired(string, string) *guard.Caller { return nil }
func (c counting) Make(string, string) (string, error) {
	*c.made++
	return "", nil
}

func peersOf(id *Identity) []*x509.Certificate {
	return []*x509.Certificate{id.Certificate.Leaf}
}
