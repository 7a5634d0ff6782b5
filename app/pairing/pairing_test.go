package pairing

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"headroom/app/machines"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// TestPair: with the code, a machine gets a key that works on its own connections until it is
// removed. The code works once.
func TestPair(t *testing.T) {
	studio, laptop, other := newSide(t, "studio"), identity(t), identity(t)
	code := studio.Show(false)
	if code.Phase != Open || len(code.Code) != codeDigits || code.Tries != maxTries {
		t.Fatalf("the offer is %+v", code)
	}
	joined, err := join(t, laptop, studio.address, code.Code)
	if err != nil {
		t.Fatal(err)
	}
	m := joined.Machine
	if m.Name != "studio" || m.URL != "https://"+studio.address || !m.Paired || joined.Both ||
		m.Certificate != studio.id.Fingerprint || m.Kind != machines.Headroom {
		t.Errorf("joined %+v", joined)
	}
	if o := studio.Offer(); o.Phase != Paired || o.Machine != "laptop" || o.Code != "" {
		t.Errorf("afterwards the offer is %+v", o)
	}
	status, body, err := use(t, laptop, m, joined.Key)
	if err != nil || status != 200 || body != "the endpoint answers paired: laptop" {
		t.Errorf("the endpoint: %d %q %v", status, body, err)
	}
	if status, body, err = use(t, laptop, m, joined.Key+"x"); err != nil || status != 401 {
		t.Errorf("with a wrong key: %d %q %v", status, body, err)
	}
	for what, id := range map[string]*Identity{"another": other, "no": nil} {
		if status, body, err := use(t, id, m, joined.Key); err == nil {
			t.Errorf("with %s certificate: %d %q", what, status, body)
		}
	}
	_, err = join(t, other, studio.address, code.Code)
	wantProblem(t, err, problem.Unauthorized, "shows no code")
	if _, _, err := studio.keys.Remove("paired: laptop"); err != nil {
		t.Fatal(err)
	}
	if status, body, err := use(t, laptop, m, joined.Key); err == nil {
		t.Errorf("after the key was removed: %d %q", status, body)
	}
}

// TestBothWays: if both ask for it, each machine may use the other.
func TestBothWays(t *testing.T) {
	studio, laptop := newSide(t, "studio"), newSide(t, "laptop")
	code := studio.Show(true)
	ends := []bool{}
	back := func(name, certificate string) (Back, error) {
		key, err := storedKeys{laptop.keys}.Make(name, certificate)
		b := Back{Key: key, End: func(stored bool) { ends = append(ends, stored) }}
		_, err2 := fmt.Sscanf(laptop.address, "127.0.0.1:%d", &b.Port)
		return b, errors.Join(err, err2)
	}
	joined, err := Join(t.Context(), Joining{Identity: laptop.id, Name: "laptop",
		Address: studio.address, Code: code.Code, Back: back})
	if err != nil || !joined.Both || len(studio.added) != 1 || !slices.Equal(ends, []bool{true}) {
		t.Fatalf("%+v, %v, added %v, ends %v", joined, err, studio.added, ends)
	}
	for key, m := range studio.added {
		if status, body, err := use(t, studio.id, m, key); err != nil || status != 200 ||
			body != "the endpoint answers paired: studio" || m.Name != "laptop" {
			t.Errorf("the laptop answers %d %q %v", status, body, err)
		}
	}
	// Once is enough, and a machine that was not asked may not offer itself.
	c := &joiner{Joining: Joining{Identity: laptop.id, Address: studio.address}}
	c.client = clientOf(c)
	err = c.postAs(t.Context(), joined.Key, pathBack, backMessage{Port: 1, Key: "k"}, nil)
	if err == nil || len(studio.added) != 1 {
		t.Errorf("the laptop was added twice: %v", studio.added)
	}
}

// TestBackWithZone: the other machine may be at a link-local address, whose zone says by which
// interface it is reached.
func TestBackWithZone(t *testing.T) {
	studio, laptop := newSide(t, "studio"), identity(t)
	studio.Show(true)
	studio.offer.phase, studio.offer.peer = Paired, laptop.Fingerprint
	r := httptest.NewRequest("POST", pathBack, strings.NewReader(`{"port": 11812, "key": "k"}`))
	r.RemoteAddr = "[fe80::1%enP2]:50000"
	r.TLS = &tls.ConnectionState{PeerCertificates: peersOf(laptop)}
	w := httptest.NewRecorder()
	studio.back(w, r)
	store, err := machines.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keyring.MockInit()
	stored, err := Store(store, studio.added["k"], "k")
	if want := "https://[fe80::1%25enP2]:11812"; err != nil || stored.URL != want ||
		w.Code != http.StatusNoContent {
		t.Fatalf("%d, stored %+v, %v, want %s", w.Code, stored, err, want)
	}
	u, err := url.Parse(stored.URL)
	if err != nil || u.Hostname() != "fe80::1%enP2" {
		t.Errorf("requests go to %v, %v", u, err)
	}
}

// TestWrongCode: three tries in all, whoever makes them, then the right code is of no use either.
func TestWrongCode(t *testing.T) {
	studio := newSide(t, "studio")
	code := studio.Show(false).Code
	wrong := "0" + code[1:]
	if wrong == code {
		wrong = "1" + code[1:]
	}
	for i := range maxTries {
		_, err := join(t, identity(t), studio.address, wrong)
		wantProblem(t, err, problem.Unauthorized, "code is wrong")
		if left := studio.Offer().Tries; left != maxTries-1-i {
			t.Errorf("after %d tries %d are left", i+1, left)
		}
	}
	if o := studio.Offer(); o.Phase != Void || o.Code != "" {
		t.Errorf("the offer is %+v", o)
	}
	_, err := join(t, identity(t), studio.address, code)
	wantProblem(t, err, problem.Unauthorized, "shows no code")
	if len(studio.keys.List()) != 0 {
		t.Error("somebody has got a key")
	}
}

// TestTriesThatBreakOff: an exchange that was begun counts, so nobody can look at the answers to
// many guesses.
func TestTriesThatBreakOff(t *testing.T) {
	studio := newSide(t, "studio")
	code := studio.Show(false).Code
	for range maxTries {
		c := &joiner{Joining: Joining{Identity: identity(t), Address: studio.address}}
		c.client = clientOf(c)
		p, err := newParty(true, "00000000", namesOf(c.Identity.Fingerprint, studio.id.Fingerprint))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.post(t.Context(), pathPair, helloMessage{protocol, p.share},
			&helloReply{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := join(t, identity(t), studio.address, code)
	wantProblem(t, err, problem.Unauthorized, "shows no code")
}

// TestThreeAtOnce: three machines type the code at the same moment. One is paired.
func TestThreeAtOnce(t *testing.T) {
	for range 5 {
		studio := newSide(t, "studio")
		code := studio.Show(false).Code
		var all sync.WaitGroup
		var mu sync.Mutex
		paired := 0
		for range 3 {
			id := identity(t)
			all.Go(func() {
				joined, err := join(t, id, studio.address, code)
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				paired++
				if status, _, err := use(t, id, joined.Machine, joined.Key); status != 200 {
					t.Errorf("the paired machine gets %d, %v", status, err)
				}
			})
		}
		all.Wait()
		if paired != 1 || len(studio.keys.List()) != 1 {
			t.Errorf("%d machines were paired, and there are %d keys", paired,
				len(studio.keys.List()))
		}
	}
}

// TestRefusedMessages: what makes no sense, or is of another version, is refused, and takes no try
// unless it begins an exchange.
func TestRefusedMessages(t *testing.T) {
	studio := newSide(t, "studio")
	code := studio.Show(false).Code
	c := &joiner{Joining: Joining{Identity: identity(t), Address: studio.address, Code: code}}
	c.client = clientOf(c)
	for what, refused := range map[string]struct {
		path    string
		message any
		says    string
	}{
		"another version":     {pathPair, helloMessage{Version: protocol + 1}, "another version"},
		"no message":          {pathPair, 7, "of a Headroom"},
		"a long message":      {pathPair, strings.Repeat("x", maxMessage), "of a Headroom"},
		"an unknown exchange": {pathConfirm, confirmMessage{Exchange: "x"}, "of a Headroom"},
	} {
		err := c.post(t.Context(), refused.path, refused.message, nil)
		if err == nil {
			t.Errorf("%s was accepted", what)
			continue
		}
		wantProblem(t, err, problem.BadRequest, refused.says)
	}
	if left := studio.Offer().Tries; left != maxTries {
		t.Errorf("%d tries are left", left)
	}
	if _, err := join(t, c.Identity, studio.address, code); err != nil {
		t.Error(err)
	}
}

// TestExpiredCode: after two minutes, also in the middle of an exchange.
func TestExpiredCode(t *testing.T) {
	studio := newSide(t, "studio")
	code := studio.Show(false).Code
	studio.pass(codeTime)
	if o := studio.Offer(); o.Phase != Expired || o.Code != "" {
		t.Errorf("the offer is %+v", o)
	}
	_, err := join(t, identity(t), studio.address, code)
	wantProblem(t, err, problem.Unauthorized, "shows no code")

	code = studio.Show(false).Code
	c := &joiner{Joining: Joining{Identity: identity(t), Address: studio.address, Code: code}}
	c.client = clientOf(c)
	p, hello := begin(t, c, studio.id.Fingerprint)
	studio.pass(codeTime)
	if err := end(t, c, p, hello, &confirmReply{}); err == nil {
		t.Error("the exchange ended after the code had expired")
	}
	if studio.Show(false); studio.Offer().Phase != Open {
		t.Error("there is no new code")
	}
	studio.Hide()
	if o := studio.Offer(); o.Phase != Void {
		t.Errorf("a withdrawn offer is %+v", o)
	}
}

// TestCertificateChanged: another certificate at the same address is refused with a sentence.
func TestCertificateChanged(t *testing.T) {
	studio, laptop := newSide(t, "studio"), identity(t)
	joined, err := join(t, laptop, studio.address, studio.Show(false).Code)
	if err != nil {
		t.Fatal(err)
	}
	impostor := newSide(t, "studio")
	m := joined.Machine
	m.URL = "https://" + impostor.address
	_, _, err = use(t, laptop, m, joined.Key)
	if !errors.Is(err, machines.ErrCertificate) {
		t.Errorf("the impostor: %v", err)
	}
}

// TestSelf: a machine is not paired with itself.
func TestSelf(t *testing.T) {
	studio := newSide(t, "studio")
	_, err := join(t, studio.id, studio.address, studio.Show(false).Code)
	wantProblem(t, err, problem.BadRequest, "same machine")
}

// TestIdentity: an identity is the same at the next start, sealed, private, and replaced only if
// its key was destroyed.
func TestIdentity(t *testing.T) {
	dir, key := t.TempDir(), seal.NewKey()
	get := func() (seal.Key, error) { return key, nil }
	first, err := OpenIdentity(dir, get)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenIdentity(dir, get)
	if err != nil || again.Fingerprint != first.Fingerprint {
		t.Errorf("the next start: %v, %v", again, err)
	}
	info, err := os.Stat(filepath.Join(dir, identityFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err != nil || strings.Contains(string(data), string(first.Certificate.Certificate[0][:40])) {
		t.Errorf("the file is not sealed: %v", err)
	}
	if leaf := first.Certificate.Leaf; leaf.Subject.String() != "" || len(leaf.DNSNames) > 0 {
		t.Errorf("the certificate names %q", leaf.Subject)
	}
	key = seal.NewKey()
	if other, err := OpenIdentity(dir, get); err != nil || other.Fingerprint == first.Fingerprint {
		t.Errorf("with another key: %v, %v", other, err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(filepath.Join(dir, identityFile), append(data, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIdentity(dir, get); err == nil {
		t.Error("a damaged file was replaced")
	}
	failing := errors.New("locked")
	if _, err := OpenIdentity(t.TempDir(), func() (seal.Key, error) {
		return seal.Key{}, failing
	}); !errors.Is(err, failing) {
		t.Error(err)
	}
}

func TestParseCode(t *testing.T) {
	for typed, want := range map[string]string{"12345678": "12345678", " 1234 5678\n": "12345678",
		"1234-5678": "12345678", "0000\u00a00000": "00000000", "": "", "1234567": "",
		"123456789": "", "1234567a": "", "１２３４５６７８": ""} {
		code, err := ParseCode(typed)
		if code != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v, want %q", typed, code, err, want)
		}
	}
	for range 100 {
		if code, err := ParseCode(Grouped(newCode())); err != nil || len(code) != codeDigits {
			t.Fatal(code, err)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for typed, want := range map[string]string{
		"studio.local": "studio.local:11812", "192.168.1.5": "192.168.1.5:11812",
		"192.168.1.5:99": "192.168.1.5:99", "https://studio.local/": "studio.local:11812",
		" HTTPS://studio:1 ": "studio:1", "::1": "[::1]:11812", "[fe80::1]": "[fe80::1]:11812",
		"[::1]:99":    "[::1]:99",
		"fe80::1%en0": "[fe80::1%en0]:11812", "[fe80::1%en0]": "[fe80::1%en0]:11812",
		"[fe80::1%en0]:99": "[fe80::1%en0]:99", "[fe80::1%25en0]:99": "[fe80::1%en0]:99",
		"[fe80::1%en0]:0": "", "::ffff:10.0.0.1": "10.0.0.1:11812", "studio%41": "",
		"studio%2541": "", "": "", "http://studio": "", "studio/v1": "", "a b": "",
		"studio:0": "", "studio:99999": "", "studio:x": "", "u@studio": "", "studio?x": ""} {
		address, err := ParseAddress(typed)
		if address != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v, want %q", typed, address, err, want)
		}
	}
}

func TestCleanName(t *testing.T) {
	for name, want := range map[string]string{"studio.local": "studio", "": "machine",
		"a/b@c\\\"d": "abcd", "\x00\x1b[31mred": "[31mred", " \u202e ": "machine", "Büro": "Büro",
		strings.Repeat("é", 100): strings.Repeat("é", maxNameRunes), "\xff": "machine"} {
		if got := cleanName(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// TestHandshakesThatHang: clients that connect and say nothing do not keep others out.
func TestHandshakesThatHang(t *testing.T) {
	studio, laptop := newSide(t, "studio"), identity(t)
	code := studio.Show(false).Code
	for range 100 {
		dial(t, studio.address)
	}
	begun := time.Now()
	if _, err := join(t, laptop, studio.address, code); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > handshakeTime/2 {
		t.Errorf("pairing took %v", took)
	}
}
