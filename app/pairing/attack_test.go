package pairing

// What a stranger on the network can do.

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/engine/problem"
)

func clientOf(c *joiner) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c.config()}}
}

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// begin sends the first message.
func begin(t *testing.T, c *joiner, server string) (*party, helloReply) {
	t.Helper()
	p, err := newParty(true, c.Code, namesOf(c.Identity.Fingerprint, server))
	if err != nil {
		t.Fatal(err)
	}
	var hello helloReply
	if err := c.post(t.Context(), pathPair, helloMessage{protocol, p.share}, &hello); err != nil {
		t.Fatal(err)
	}
	return p, hello
}

// end sends the second message.
func end(t *testing.T, c *joiner, p *party, hello helloReply, reply *confirmReply) error {
	t.Helper()
	a, err := p.finish(hello.Share)
	if err != nil {
		t.Fatal(err)
	}
	return c.post(t.Context(), pathConfirm, confirmMessage{Exchange: hello.Exchange,
		Confirm: a.mine, Sealed: a.seal(fromA, introduction{"laptop"})}, reply)
}

// relay passes the requests of a pairing on, on connections of its own, and keeps them.
type relay struct {
	id     *Identity
	to     string
	change func(path string, body []byte) []byte // of requests; nil: none

	mu    sync.Mutex
	sent  []recorded
	heard []recorded
}

type recorded struct {
	path string
	body []byte
}

func (m *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if m.change != nil {
		body = m.change(r.URL.Path, body)
	}
	c := &joiner{Joining: Joining{Identity: m.id, Address: m.to}}
	client := clientOf(c)
	defer client.CloseIdleConnections()
	response, err := client.Post("https://"+m.to+r.URL.Path, "application/json",
		bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	m.mu.Lock()
	m.sent = append(m.sent, recorded{r.URL.Path, body})
	m.heard = append(m.heard, recorded{r.URL.Path, answer})
	m.mu.Unlock()
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
}

// TestManInTheMiddle relays every message unchanged, with a certificate of its own to both sides.
// The sides see other certificates than each other's, so the code does not help.
func TestManInTheMiddle(t *testing.T) {
	studio, laptop, middle := newSide(t, "studio"), identity(t), identity(t)
	code := studio.Show(false).Code
	m := &relay{id: middle, to: studio.address}
	address := listen(t, m, &tls.Config{Certificates: []tls.Certificate{middle.Certificate},
		ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
	_, err := join(t, laptop, address, code)
	wantProblem(t, err, problem.Unauthorized, "")
	if len(studio.keys.List()) != 0 || studio.Offer().Tries != maxTries-1 || len(m.sent) != 2 {
		t.Errorf("the offer is %+v, and %d messages were relayed", studio.Offer(), len(m.sent))
	}
}

// TestMiddleWithoutTheOther: a machine in the middle that answers by itself does not know the code,
// and the person is told.
func TestMiddleWithoutTheOther(t *testing.T) {
	impostor, laptop := newSide(t, "impostor"), identity(t)
	guess := impostor.Show(false).Code
	code := "0" + guess[1:]
	if code == guess {
		code = "1" + guess[1:]
	}
	_, err := join(t, laptop, impostor.address, code)
	wantProblem(t, err, problem.Unauthorized, "wrong")

	// One that pretends to accept every confirmation.
	middle := identity(t)
	address := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := newParty(false, guess, namesOf(laptop.Fingerprint, middle.Fingerprint))
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == pathPair {
			send(w, 200, helloReply{Version: protocol, Exchange: "x", Share: p.share})
			return
		}
		send(w, 200, confirmReply{Confirm: make([]byte, 32), Sealed: make([]byte, 64)})
	}), &tls.Config{Certificates: []tls.Certificate{middle.Certificate},
		ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
	_, err = join(t, laptop, address, code)
	wantProblem(t, err, problem.Unauthorized, "does not know the code")
}

// TestReplay sends every message of a pairing again: at once, with the next code, and from another
// machine. Nothing of it gives a key.
func TestReplay(t *testing.T) {
	studio, laptop := newSide(t, "studio"), identity(t)
	code := studio.Show(false).Code
	c := &joiner{Joining: Joining{Identity: laptop, Address: studio.address, Code: code}}
	c.client = clientOf(c)
	p, hello := begin(t, c, studio.id.Fingerprint)
	a, err := p.finish(hello.Share)
	if err != nil {
		t.Fatal(err)
	}
	messages := []recorded{}
	for path, message := range map[string]any{pathPair: helloMessage{protocol, p.share},
		pathConfirm: confirmMessage{Exchange: hello.Exchange, Confirm: a.mine,
			Sealed: a.seal(fromA, introduction{"laptop"})}} {
		body, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, recorded{path, body})
	}
	var reply confirmReply
	if err := end(t, c, p, hello, &reply); err != nil {
		t.Fatal(err)
	}
	before := len(studio.keys.List())
	for _, when := range []string{"at once", "with the next code"} {
		prepare := func() {}
		if when != "at once" {
			prepare = func() { studio.Show(false) }
		}
		for _, id := range []*Identity{laptop, identity(t)} {
			for _, m := range messages {
				prepare()
				again := clientOf(&joiner{Joining: Joining{Identity: id}})
				response, err := again.Post("https://"+studio.address+m.path, "application/json",
					bytes.NewReader(m.body))
				if err != nil {
					continue // refused in the handshake
				}
				answer, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode == 200 && (m.path != pathPair || when == "at once") {
					t.Errorf("%s %s: %d %s", when, m.path, response.StatusCode, answer)
				}
				again.CloseIdleConnections()
			}
		}
	}
	if after := len(studio.keys.List()); before != 1 || after != before {
		t.Errorf("there were %d keys, and there are %d", before, after)
	}
	// What the server has said is of no use to another machine's exchange either.
	other, err := newParty(true, code, namesOf(identity(t).Fingerprint, studio.id.Fingerprint))
	if err != nil {
		t.Fatal(err)
	}
	b, err := other.finish(hello.Share)
	if err != nil || b.confirms(reply.Confirm) || b.open(fromB, reply.Sealed, &grant{}) == nil {
		t.Errorf("another machine reads the answer: %v", err)
	}
	var given grant
	if err := a.open(fromB, reply.Sealed, &given); err != nil || given.Key == "" {
		t.Errorf("the machine itself cannot read the answer: %v", err)
	}
}

// TestExchangeOfAnother: an exchange ends on connections of the machine that began it.
func TestExchangeOfAnother(t *testing.T) {
	studio, laptop := newSide(t, "studio"), identity(t)
	code := studio.Show(false).Code
	c := &joiner{Joining: Joining{Identity: laptop, Address: studio.address, Code: code}}
	c.client = clientOf(c)
	p, hello := begin(t, c, studio.id.Fingerprint)
	thief := &joiner{Joining: Joining{Identity: identity(t), Address: studio.address}}
	thief.client = clientOf(thief)
	if err := end(t, thief, p, hello, &confirmReply{}); err == nil {
		t.Error("another machine has ended the exchange")
	}
	if err := end(t, c, p, hello, &confirmReply{}); err != nil {
		t.Errorf("the machine itself cannot end it any more: %v", err)
	}
}

// TestStranger looks at the port as a scan would. Without a code there is a TLS server that
// refuses, and with one there is nothing but the pairing. No byte names Headroom, a version or a
// machine.
func TestStranger(t *testing.T) {
	studio := newSide(t, "studio-of-anna")
	secret := []string{"headroom", "studio", "anna", "model", "version"}
	look := func(what string, said []byte) {
		t.Helper()
		for _, word := range secret {
			if bytes.Contains(bytes.ToLower(said), []byte(word)) {
				t.Errorf("%s: the port says %q", what, said)
			}
		}
	}
	for what, sent := range map[string]string{"nothing": "", "SSH": "SSH-2.0-x\r\n",
		"HTTP":  "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"noise": strings.Repeat("\x00\xff", 300), "TLS 1.0": "\x16\x03\x01\x00\x00"} {
		conn := dial(t, studio.address).(*net.TCPConn)
		_, _ = io.WriteString(conn, sent)
		_ = conn.CloseWrite()
		_ = conn.SetDeadline(time.Now().Add(2 * handshakeTime))
		said, _ := io.ReadAll(conn)
		look(what, said)
		// Beside silence, an alert record of TLS is all that may come.
		if len(said) > 0 && (len(said) != 7 || said[0] != 21) {
			t.Errorf("%s: the port answers %q", what, said)
		}
	}
	for _, open := range []bool{false, true} {
		if open {
			studio.Show(false)
		}
		for what, certificates := range map[string][]tls.Certificate{"no certificate": nil,
			"a certificate": {identity(t).Certificate}} {
			for version, wanted := range map[uint16]bool{tls.VersionTLS12: false,
				tls.VersionTLS13: true} {
				at := fmt.Sprintf("open %v, %s, TLS %x", open, what, version)
				config := &tls.Config{InsecureSkipVerify: true, MaxVersion: version,
					Certificates: certificates}
				conn := tls.Client(dial(t, studio.address), config)
				_ = conn.SetDeadline(time.Now().Add(2 * handshakeTime))
				shaken := conn.Handshake()
				if (shaken == nil) != wanted {
					t.Errorf("%s: the handshake: %v", at, shaken)
				}
				if shaken == nil {
					look(at, conn.ConnectionState().PeerCertificates[0].Raw)
				}
				for _, path := range []string{"/", "/v1/models", "/health", "/ready", "/metrics",
					"/control/state", "/openapi.json", "/api/version", "/api/prefix", "/pair/back",
					"/pair", "/pair/confirm"} {
					status, said := ask(t, studio.address, config, path)
					look(at+path, said)
					reached := status > 0
					if may := open && certificates != nil && version == tls.VersionTLS13; reached &&
						(!may || status != 404) {
						t.Errorf("%s %s: %d %q", at, path, status, said)
					}
				}
			}
		}
	}
}

// ask sends a GET request and returns the status, 0 if there is no answer, and all that was said.
func ask(t *testing.T, address string, config *tls.Config, path string) (int, []byte) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone()}}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + address + path)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	var said bytes.Buffer
	_ = response.Header.Write(&said)
	_, _ = io.Copy(&said, response.Body)
	return response.StatusCode, said.Bytes()
}

// FuzzMessages sends any message to a server that shows a code, and any second message after a
// valid first one. It must not panic, and must give nobody a key.
func FuzzMessages(f *testing.F) {
	share, err := json.Marshal(helloMessage{protocol, pointM.Bytes()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(true, string(share))
	f.Add(false, `{"exchange":"EXCHANGE","confirm":"AA==","sealed":"AA=="}`)
	f.Add(false, `{"exchange":"EXCHANGE"}`)
	f.Add(true, `{"version":1,"share":"BA=="}`)
	f.Add(false, `{"exchange":"","confirm":"AA==","sealed":""}`)
	f.Add(true, `{"version":1e999}`)
	f.Add(false, `null`)
	id, peer := identity(f), identity(f)
	made := 0
	f.Fuzz(func(t *testing.T, first bool, body string) {
		s := NewServer(Options{Identity: id, Keys: counting{&made}})
		s.Show(false)
		post := func(path, body string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest("POST", path,
				strings.NewReader(body))
			r.TLS = &tls.ConnectionState{PeerCertificates: peersOf(peer)}
			s.ServeHTTP(w, r)
			return w
		}
		if first {
			post(pathPair, body)
		} else {
			var hello helloReply
			if err := json.Unmarshal(post(pathPair, string(share)).Body.Bytes(),
				&hello); err != nil {
				t.Fatal(err)
			}
			body = strings.ReplaceAll(body, "EXCHANGE", hello.Exchange)
			if w := post(pathConfirm, body); w.Code == 200 {
				t.Errorf("%q got %s", body, w.Body)
			}
		}
		if made > 0 {
			t.Errorf("%q got a key", body)
		}
	})
}

// FuzzAnswers gives any answer to the side on which the code is typed.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"version":1,"exchange":"x","share":"BA=="}`, `{"confirm":"AA==","sealed":"AA=="}`)
	id := identity(f)
	f.Fuzz(func(t *testing.T, hello, confirm string) {
		var m helloReply
		if decode(strings.NewReader(hello), &m) != nil {
			return
		}
		p, err := newParty(true, "12345678", namesOf(id.Fingerprint, id.Fingerprint))
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.finish(m.Share)
		if err != nil {
			return
		}
		var reply confirmReply
		if decode(strings.NewReader(confirm), &reply) == nil && (a.confirms(reply.Confirm) ||
			a.open(fromB, reply.Sealed, &grant{}) == nil) {
			t.Error("an answer without the code was accepted")
		}
	})
}

// FuzzIdentity reads any content of an identity's file.
func FuzzIdentity(f *testing.F) {
	f.Add([]byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, content []byte) { _, _ = parseIdentity(content) })
}
