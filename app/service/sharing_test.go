package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/app/cache"
	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/keys"
	"headroom/app/library"
	"headroom/app/machines"
	"headroom/app/memory"
	"headroom/app/pairing"
	"headroom/app/settings"
	"headroom/app/vault"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// machine is a Headroom with settings of its own.
type machine struct {
	*Service
	dir   string
	vault *vault.Vault
}

// newMachine starts a Headroom with a tiny model. Its port for machines is any free one of
// loopback.
func newMachine(t *testing.T, change func(*Options)) *machine {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	root := t.TempDir()
	plantTiny(t, "qwen3", filepath.Join(root, "qwen3"))
	options := engine.Options{Device: engine.DeviceCPU, Threads: 1, ContextTokens: 256}
	dir := filepath.Join(home, "settings")
	file, err := control.OpenSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Listen: "127.0.0.1", Settings: file, Vault: vault.Open(dir),
		MachinesListen: "127.0.0.1", MachinesPort: -1,
		NewHost: func(*settings.File) *host.Host {
			return host.New(host.Options{Version: "1.2.3-secret", Meter: plentiful(),
				Open:     openEngine,
				Library:  library.New([]string{root}, options, engine.Describe),
				Engine:   func(string) engine.Options { return options },
				Requests: func() host.RequestRules { return host.RequestRules{Load: true} }})
		},
		NewMover: func(*host.Host, *settings.File) (*cache.Mover, error) {
			return nil, fmt.Errorf("not in this test")
		}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return &machine{s, dir, o.Vault}
}

// plentiful returns a meter of a machine with much memory.
func plentiful() *memory.Meter {
	const bytes = 1 << 40
	return memory.NewMeter(func([]int) (memory.Reading, error) {
		return memory.Reading{TotalBytes: bytes, AvailableBytes: bytes, WiredLimitBytes: bytes}, nil
	})
}

// openEngine opens a model in this process.
func openEngine(ctx context.Context, src engine.Source, o engine.Options) (host.Engine, error) {
	e, err := engine.Open(ctx, src, o)
	if err != nil {
		return nil, err // not a nil *engine.Engine inside an Engine
	}
	return e, nil
}

// other returns a machine that this one was paired with, a client for it, and its key.
func (m *machine) other(t *testing.T, name string) (machines.Machine, *http.Client, string) {
	t.Helper()
	store, err := machines.Open(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	found, err := store.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := store.Secret(found)
	if err != nil {
		t.Fatal(err)
	}
	id, err := pairing.OpenIdentity(m.dir, m.vault.Key)
	if err != nil {
		t.Fatal(err)
	}
	client := machines.ClientAs(found, func() (*tls.Certificate, error) {
		return &id.Certificate, nil
	})
	t.Cleanup(client.CloseIdleConnections)
	return found, client, key
}

// pair lets b use a, and returns b's client for a.
func pair(t *testing.T, a, b *machine, both bool) (machines.Machine, *http.Client, string) {
	t.Helper()
	if err := a.ShowCode(both); err != nil {
		t.Fatal(err)
	}
	state := a.Sharing()
	joined, err := b.Join(t.Context(), addressOf(a), state.Code.Code, both)
	if err != nil || joined.Both != both {
		t.Fatalf("joined %+v, %v", joined, err)
	}
	return b.other(t, joined.Name)
}

func addressOf(m *machine) string { return fmt.Sprintf("127.0.0.1:%d", m.Sharing().Port) }

func (m *machine) share(t *testing.T, on bool) {
	t.Helper()
	if err := m.ChangeSharing(&on, nil); err != nil {
		t.Fatal(err)
	}
}

// send sends a request and returns its status and the answer.
func send(client *http.Client, method, url, key, body string) (int, string, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// listening reports whether something listens on the usual port for machines, or on any port of
// this process but the endpoints'.
func listening(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// TestSharingIsOff: by default nothing listens but the endpoint, no certificate exists, and no code
// can be shown.
func TestSharingIsOff(t *testing.T) {
	before := listeners(t)
	m := newMachine(t, nil)
	state := m.Sharing()
	if state.On || state.Open || state.Find || state.Code.Phase != pairing.NoCode {
		t.Errorf("the state is %+v", state)
	}
	if n := listeners(t) - before; n != 1 {
		t.Errorf("the service listens on %d ports, want 1", n)
	}
	if err := m.ShowCode(false); err == nil || problem.From(err).Code != problem.BadRequest {
		t.Errorf("a code was shown: %v", err)
	}
	if _, err := os.Stat(pairing.IdentityFile(m.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a certificate: %v", err)
	}
	m.share(t, true)
	address := addressOf(m)
	if n := listeners(t) - before; n != 2 || !listening(address) {
		t.Errorf("the shared service listens on %d ports", n)
	}
	m.share(t, false)
	if n := listeners(t) - before; n != 1 || listening(address) {
		t.Errorf("after it was switched off the service listens on %d ports", n)
	}
}

// listeners counts the TCP sockets on which this process listens.
func listeners(t *testing.T) (n int) {
	t.Helper()
	listens := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Skip("this system does not list sockets")
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				listens["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, f := range files {
		if target, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && listens[target] {
			n++
		}
	}
	return n
}

// TestTwoMachines pairs two Headrooms in both directions. Each answers the other's requests, and
// what else is there cannot be reached.
func TestTwoMachines(t *testing.T) {
	a, b := newMachine(t, nil), newMachine(t, nil)
	a.share(t, true)
	b.share(t, true)
	toA, client, key := pair(t, a, b, true)
	store, err := machines.Open(a.dir)
	if err != nil || len(store.List()) != 1 {
		t.Fatalf("a has the machines %v, %v", store.List(), err)
	}
	toB, clientB, keyB := a.other(t, store.List()[0].Name)
	chat := `{"model":"qwen3","messages":[{"role":"user","content":"hi"}],"max_tokens":4}`
	for _, one := range []struct {
		m      machines.Machine
		client *http.Client
		key    string
	}{{toA, client, key}, {toB, clientB, keyB}} {
		status, text, err := send(one.client, "POST", one.m.URL+"/v1/completions", one.key,
			`{"model":"qwen3","prompt":[1,2,3],"max_tokens":4}`)
		if err != nil || status != 200 || !strings.Contains(text, `"completion_tokens":4`) {
			t.Errorf("a completion: %d %s %v", status, text, err)
		}
		for path, want := range map[string]int{"/v1/models": 200, "/v1//models/": 200,
			"/health": 200, "/api/tags": 200, "/control/state": 404, "/control/openapi.json": 404,
			"/": 404, "/index.html": 404, "/control/pairing": 404} {
			status, text, err := send(one.client, "GET", one.m.URL+path, one.key, "")
			if err != nil || status != want {
				t.Errorf("%s: %d %s %v, want %d", path, status, text, err, want)
			}
		}
		if status, _, err := send(one.client, "POST", one.m.URL+"/v1/chat/completions", "",
			chat); err != nil || status != 401 {
			t.Errorf("without the key: %d %v", status, err)
		}
	}
	// Neither the token of the control API nor a client's key opens the port.
	_, laptop, err := a.keys.Add("laptop", keys.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for what, given := range map[string]string{"token": a.Token, "client's key": laptop} {
		r, _ := http.NewRequest("GET", toA.URL+"/v1/models", nil)
		r.Header.Set("X-Api-Key", given)
		r.Header.Set(control.TokenHeader, a.Token)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != 401 {
			t.Errorf("with a %s: %d", what, response.StatusCode)
		}
	}
	// And the machine's key does not open the endpoint for clients.
	if status, _, err := send(http.DefaultClient, "GET", "http://"+a.Address+"/v1/models", key,
		""); err != nil || status != 401 {
		t.Errorf("the machine's key at the endpoint: %d %v", status, err)
	}
	users := a.Sharing().Users
	if len(users) != 1 || users[0].LastUsedAtUnixMs == 0 {
		t.Fatalf("a's users are %+v", users)
	}
	// The key has limits like any other, and keeps its name and its machine.
	if _, err := a.keys.Set(users[0].KeyID, "studio", keys.Limits{
		Models: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	if status, text, err := send(client, "POST", toA.URL+"/v1/completions", key,
		`{"model":"qwen3","prompt":[1,2,3],"max_tokens":4}`); err != nil || status == 200 {
		t.Errorf("a model that the key may not use: %d %s %v", status, text, err)
	}
	if _, _, err := a.keys.Remove(users[0].KeyID); err != nil {
		t.Fatal(err)
	}
	if status, text, err := send(client, "GET", toA.URL+"/v1/models", key, ""); err == nil &&
		status != 404 {
		t.Errorf("after the key was removed: %d %s", status, text)
	}
	client.CloseIdleConnections()
	if status, text, err := send(client, "GET", toA.URL+"/v1/models", key, ""); err == nil {
		t.Errorf("on a new connection: %d %s", status, text)
	}
}

// TestBackFails: a machine that cannot store its half of a pairing in both directions has no key
// from it, and one from an earlier pairing still passes.
func TestBackFails(t *testing.T) {
	a, b := newMachine(t, nil), newMachine(t, nil)
	a.share(t, true)
	b.share(t, true)
	list := filepath.Join(a.dir, "machines.json")
	fails := func(users int) {
		t.Helper()
		good, _ := os.ReadFile(list)
		if err := os.WriteFile(list, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.ShowCode(true); err != nil {
			t.Fatal(err)
		}
		_, err := b.Join(t.Context(), addressOf(a), a.Sharing().Code.Code, true)
		if err == nil || !strings.Contains(err.Error(), "Only one direction") {
			t.Errorf("joined: %v", err)
		}
		if got := b.Sharing().Users; len(got) != users {
			t.Errorf("%+v may use b, want %d", got, users)
		}
		if good == nil {
			good = []byte(`{"version":1,"machines":[]}`)
		}
		if err := os.WriteFile(list, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paired := func() (machines.Machine, *http.Client, string) {
		t.Helper()
		pair(t, a, b, true)
		store, err := machines.Open(a.dir)
		if err != nil || len(store.List()) != 1 {
			t.Fatalf("a has the machines %v, %v", store.List(), err)
		}
		return a.other(t, store.List()[0].Name)
	}
	status := func(m machines.Machine, client *http.Client, key string) int {
		t.Helper()
		status, _, err := send(client, "GET", m.URL+"/v1/models", key, "")
		if err != nil {
			t.Error(err)
		}
		return status
	}
	fails(0)
	m, client, key := paired()
	name := b.Sharing().Users[0].Name
	fails(1)
	if got := status(m, client, key); got != 200 {
		t.Errorf("the key of the first pairing gets %d", got)
	}
	again, client, newKey := paired()
	if first, second := status(again, client, key), status(again, client, newKey); first != 401 ||
		second != 200 {
		t.Errorf("the old key gets %d and the new one %d", first, second)
	}
	if got := b.Sharing().Users; len(got) != 1 || got[0].Name != name {
		t.Errorf("%+v may use b, want %s", got, name)
	}
}

// TestRoutedToAPairedMachine: a request for a model that only the other machine has is answered
// there, over the port for machines, until that machine is forgotten.
func TestRoutedToAPairedMachine(t *testing.T) {
	a := newMachine(t, nil)
	b := newMachine(t, func(o *Options) {
		o.NewHost = func(*settings.File) *host.Host {
			return host.New(host.Options{Meter: plentiful(), Open: openEngine,
				Library: library.New(nil, engine.Options{}, engine.Describe)})
		}
	})
	a.share(t, true)
	m, _, _ := pair(t, a, b, false)
	ask := func() (int, string, error) {
		return send(http.DefaultClient, "POST", "http://"+b.Address+"/v1/completions", "",
			`{"model":"qwen3","prompt":[1,2,3],"max_tokens":4}`)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, text, err := ask()
		if err == nil && status == 200 && strings.Contains(text, `"completion_tokens":4`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the request is not answered: %d %s %v", status, text, err)
		}
	}
	if users := a.Sharing().Users; len(users) != 1 || users[0].LastUsedAtUnixMs == 0 {
		t.Errorf("a's users are %+v", users)
	}
	if _, err := b.sharing.machines.Remove(m.ID); err != nil {
		t.Fatal(err)
	}
	b.Router.Reload()
	if status, text, err := ask(); err != nil || status != 404 {
		t.Errorf("after the machine was forgotten: %d %s %v", status, text, err)
	}
}

// TestPairedMachineStaysHere: a paired machine uses the models of this machine. It neither sees nor
// reaches those of its other machines, whatever headers it sends. Clients of this machine do.
func TestPairedMachineStaysHere(t *testing.T) {
	var asked atomic.Int64
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/models") {
			_, _ = io.WriteString(w, `{"data":[{"id":"paid"},{"id":"qwen3"}]}`)
			return
		}
		asked.Add(1)
		_, _ = io.WriteString(w, "cloud")
	}))
	defer cloud.Close()
	a, b := newMachine(t, nil), newMachine(t, nil)
	a.share(t, true)
	toA, client, key := pair(t, a, b, false)
	if _, err := a.sharing.machines.Add(machines.Machine{Name: "cloud", Kind: machines.OpenAI,
		URL: cloud.URL + "/v1"}, ""); err != nil {
		t.Fatal(err)
	}
	a.Router.Reload()
	own := func(method, path, body string) string {
		_, text, err := send(http.DefaultClient, method, "http://"+a.Address+path, "", body)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(own("GET", "/v1/models", ""),
		"paid"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cloud's models are not listed")
		}
	}
	if text := own("POST", "/v1/completions", `{"model":"paid","prompt":"x"}`); text != "cloud" {
		t.Errorf("a client of this machine gets %s", text)
	}
	asked.Store(0)
	for _, model := range []string{"paid", "paid@cloud", "qwen3@cloud"} {
		status, text, err := send(client, "POST", toA.URL+"/v1/completions", key,
			`{"model":"`+model+`","prompt":[1,2,3],"max_tokens":4}`)
		if err != nil || status != 404 || asked.Load() > 0 {
			t.Errorf("%s: %d %s %v, the cloud was asked %d times", model, status, text, err,
				asked.Load())
		}
	}
	for _, path := range []string{"/v1/models", "/v1/models/paid", "/api/tags", "/api/ps",
		"/api/machine"} {
		_, text, err := send(client, "GET", toA.URL+path, key, "")
		if err != nil || strings.Contains(text, `"paid"`) || strings.Contains(text, "cloud") {
			t.Errorf("%s: %s %v", path, text, err)
		}
	}
}

// TestPairingLeavesClientsAlone: a client that needed no key on loopback needs none after a
// pairing.
func TestPairingLeavesClientsAlone(t *testing.T) {
	a, b := newMachine(t, nil), newMachine(t, nil)
	a.share(t, true)
	pair(t, a, b, false)
	for _, m := range []*machine{a, b} {
		status, text, err := send(http.DefaultClient, "GET", "http://"+m.Address+"/v1/models", "",
			"")
		if err != nil || status != 200 {
			t.Errorf("without a key: %d %s %v", status, text, err)
		}
	}
}

// TestSharingSurvivesARestart: the next start opens the port by the settings, with the same
// certificate, and the other machine's key still works.
func TestSharingSurvivesARestart(t *testing.T) {
	a, b := newMachine(t, nil), newMachine(t, nil)
	a.share(t, true)
	_, _, key := pair(t, a, b, false)
	again := newMachine(t, func(o *Options) {
		file, err := control.OpenSettings(a.dir)
		if err != nil {
			t.Fatal(err)
		}
		o.Settings, o.Vault = file, vault.Open(a.dir)
	})
	if !again.Sharing().Open {
		t.Fatal("the port is closed")
	}
	_, client, _ := b.other(t, pairing.MachineName())
	status, text, err := send(client, "GET", "https://"+addressOf(again)+"/v1/models", key, "")
	if err != nil || status != 200 {
		t.Errorf("the next start: %d %s %v", status, text, err)
	}
}

// TestFindMachines: two shared machines find each other, and not themselves, while both may. One
// that is not shared can look and is not found.
func TestFindMachines(t *testing.T) {
	local := pairing.Network{Loopback: true}
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			local.Interfaces = []net.Interface{i}
		}
	}
	on := true
	finding := func(o *Options) { o.Network, o.Find = local, &on }
	a, b := newMachine(t, finding), newMachine(t, finding)
	a.share(t, true)
	port := fmt.Sprint(a.Sharing().Port)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		state := b.Sharing()
		if state.FindProblem != nil {
			t.Skip(state.FindProblem.Message, state.FindProblem.Why)
		}
		seen, _ := a.sharing.finder.Found() // starts a's search, too
		own := a.Sharing().Found
		if len(state.Found) == 1 && strings.HasSuffix(state.Found[0].Address, ":"+port) &&
			len(seen) == 1 {
			if len(own) > 0 {
				t.Errorf("a found itself: %+v", own)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("found %+v", state.Found)
		}
	}
	off := false
	b.sharing.find = &off
	_ = b.sharing.apply()
	if state := b.Sharing(); state.Find || len(state.Found) != 0 || b.sharing.finder != nil {
		t.Errorf("after it was switched off: %+v", state)
	}
}

// TestSharingFlags: the command line overrides the settings, and a port that is taken is an error
// if the command line asks for it, and a sentence in the state otherwise.
func TestSharingFlags(t *testing.T) {
	taken := freeListener(t)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	on, off := true, false
	m := newMachine(t, func(o *Options) {
		o.MachinesPort, o.Share = port, &off
		if err := o.Settings.Change(func(s *settings.Settings) {
			s.ShareWithMachines = true
		}); err != nil {
			t.Fatal(err)
		}
	})
	if state := m.Sharing(); state.On || len(state.ReadOnly) != 1 {
		t.Errorf("switched off by the flag: %+v", state)
	}
	if err := m.ChangeSharing(&on, nil); err == nil {
		t.Error("the flag was overridden")
	}
	m = newMachine(t, func(o *Options) { o.MachinesPort = port })
	err := m.ChangeSharing(&on, nil)
	if state := m.Sharing(); err == nil || problem.From(err).Code != problem.PortTaken ||
		!state.On || state.Open || state.Problem == nil {
		t.Errorf("a port that is taken: %v, %+v", err, state)
	}
	o := Options{Listen: "127.0.0.1", Settings: m.settings, Share: &on, MachinesPort: port,
		MachinesListen: "127.0.0.1", Vault: m.vault,
		NewHost: func(*settings.File) *host.Host {
			return host.New(host.Options{Meter: plentiful(), Open: openEngine,
				Library: library.New(nil, engine.Options{}, engine.Describe)})
		}}
	if s, err := New(o); err == nil || problem.From(err).Code != problem.PortTaken {
		t.Errorf("a port of the command line that is taken: %v", err)
		s.Close()
	}
}

// TestSharedConnectionLimits: a connection beyond the limits is closed without a word, and one with
// a request is not closed for it.
func TestSharedConnectionLimits(t *testing.T) {
	id, err := pairing.OpenIdentity(t.TempDir(), vault.Open(t.TempDir()).Key)
	if err != nil {
		t.Fatal(err)
	}
	l := freeListener(t)
	ctx, stop := context.WithCancel(t.Context())
	ended, begun, end := make(chan error, 1), make(chan bool), make(chan bool)
	go func() {
		handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			begun <- true
			<-end
		})
		ended <- server.Serve(ctx, l, handler, server.ServeOptions{
			Limits: server.Limits{Connections: 1},
			TLS: func(l net.Listener) net.Listener {
				return pairing.Listener(l, &tls.Config{
					Certificates: []tls.Certificate{id.Certificate}})
			}})
	}()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answered := make(chan error, 1)
	go func() {
		response, err := client.Get("https://" + l.Addr().String())
		if err == nil {
			_ = response.Body.Close()
		}
		answered <- err
	}()
	<-begun
	for range 5 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		if said, _ := io.ReadAll(conn); len(said) > 0 {
			t.Errorf("the port says %q", said)
		}
		_ = conn.Close()
	}
	close(end)
	if err := <-answered; err != nil {
		t.Errorf("the request was broken off: %v", err)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
