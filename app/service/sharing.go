package service

// The port for other machines. It is closed unless the settings or the command line open it, and
// opens and closes while the service runs. See app/pairing.

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/keys"
	"headroom/app/machines"
	"headroom/app/pairing"
	"headroom/app/settings"
	"headroom/app/vault"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// sharing shares this machine with others.
type sharing struct {
	settings *settings.File
	keys     *keys.Store
	vault    *vault.Vault
	endpoint http.Handler // what paired machines use, without a check of its own
	refuse   func(http.ResponseWriter, *http.Request, error)
	listen   string // host name or address; "": all interfaces
	port     int    // of the command line; 0: that of the settings. -1: any free one
	always   *bool  // overrides the settings' ShareWithMachines
	find     *bool  // overrides the settings' FindMachines
	network  pairing.Network
	machines *machines.Store // nil: opened when it is used
	changed  func()          // called after a change of machines; nil: nothing is called

	mu      sync.Mutex
	closed  bool
	running *sharedPort // nil: the port is closed
	failure error       // why it is, although it should be open
	finder  *pairing.Finder
	// announcement lets others find the open port; nil: they cannot.
	announcement *pairing.Announcement
	unannounced  error // why not, although they should
}

// sharedPort is the open port.
type sharedPort struct {
	*pairing.Server
	identity *pairing.Identity
	port     int
	stop     context.CancelFunc
	ended    chan struct{}
}

// on reports whether this machine is to be shared.
func (s *sharing) on() bool {
	if s.always != nil {
		return *s.always
	}
	return s.settings.Get().ShareWithMachines
}

// portNumber returns the port that the flags and settings choose.
func (s *sharing) portNumber() int {
	switch port := s.settings.Get().MachinesPort; {
	case s.port < 0:
		return 0 // any
	case s.port > 0:
		return s.port
	case port > 0:
		return port
	}
	return pairing.Port
}

// finds reports whether other machines are to be listed, and this one announced.
func (s *sharing) finds() bool {
	if s.find != nil {
		return *s.find
	}
	return s.settings.Get().FindMachines
}

// apply opens or closes the port, and announces it, as the settings say. The error is a Problem of
// the port.
func (s *sharing) apply() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.applyFinding()
	on := s.on() && !s.closed
	switch {
	case on && s.running == nil:
		s.running, s.failure = s.open()
		return s.failure
	case !on && s.running != nil:
		s.running.close()
		s.running = nil
	}
	if !on {
		s.failure = nil
	}
	return nil
}

// applyFinding announces the port, and starts or ends searches. mu is locked.
func (s *sharing) applyFinding() {
	finds := s.finds() && !s.closed
	switch {
	case finds && s.finder == nil:
		s.finder = pairing.NewFinder(s.network)
	case !finds && s.finder != nil:
		s.finder.Close()
		s.finder = nil
	}
	announced := finds && s.running != nil
	if !announced {
		s.unannounced = nil
	}
	switch {
	case announced && s.announcement == nil:
		s.announcement, s.unannounced = pairing.Announce(s.network, pairing.MachineName(),
			s.running.port)
		if s.unannounced != nil {
			slog.Warn("other machines cannot find this one", "err", s.unannounced)
		}
	case !announced && s.announcement != nil:
		s.announcement.Close()
		s.announcement = nil
	}
}

// found lists the machines on the local network, but this one.
func (s *sharing) found(state *control.Sharing) {
	s.mu.Lock()
	finder, err := s.finder, s.unannounced
	s.mu.Unlock()
	if state.Find = s.finds(); finder == nil {
		return
	}
	list, failed := finder.Found()
	for _, m := range list {
		if !s.isOwn(m) {
			state.Found = append(state.Found, control.FoundMachine{Name: m.Name,
				Address: m.Address})
		}
	}
	if err = cmp.Or(failed, err); err != nil {
		state.FindProblem = host.NewError(problem.From(err))
	}
}

// isOwn reports whether a machine that was found is this one.
func (s *sharing) isOwn(m pairing.Found) bool {
	s.mu.Lock()
	p := s.running
	s.mu.Unlock()
	hostName, port, err := net.SplitHostPort(m.Address)
	if err != nil || p == nil || port != strconv.Itoa(p.port) {
		return false
	}
	hostName, _, _ = strings.Cut(hostName, "%") // the zone of a link-local address
	all, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(net.ParseIP(hostName))
	})
}

// identity returns this machine's certificate. The error is a Problem.
func (s *sharing) identity() (*pairing.Identity, error) {
	return pairing.OpenIdentity(filepath.Dir(s.settings.Path()), s.vault.Key)
}

// open opens the port. The error is a Problem.
func (s *sharing) open() (*sharedPort, error) {
	id, err := s.identity()
	if err != nil {
		return nil, err
	}
	l, err := listen(s.listen, s.portNumber(), machinesPort)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &sharedPort{identity: id, port: l.Addr().(*net.TCPAddr).Port, stop: stop,
		ended: make(chan struct{})}
	p.Server = pairing.NewServer(pairing.Options{Identity: id, Name: pairing.MachineName(),
		Keys: pairedKeys{s.keys}, Endpoint: s.endpoint, Refuse: s.refuse,
		Add: func(m machines.Machine, key string) error {
			_, err := s.addMachine(m, key)
			return err
		}})
	go func() {
		defer close(p.ended)
		err := server.Serve(ctx, l, p.Server, server.ServeOptions{Drain: drainTime,
			TLS: func(l net.Listener) net.Listener { return pairing.Listener(l, p.TLS()) }})
		if err != nil {
			slog.Error("the port for other machines was closed", "err", err)
		}
		_ = l.Close()
	}()
	slog.Info("paired machines can use this one", "port", p.port,
		"certificate", pairing.Short(id.Fingerprint))
	return p, nil
}

// close closes the port and ends the requests of other machines.
func (p *sharedPort) close() {
	p.stop()
	<-p.ended
}

// close closes the port for good.
func (s *sharing) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_ = s.apply()
}

// addMachine stores a machine whose engines this one may use.
func (s *sharing) addMachine(m machines.Machine, key string) (machines.Machine, error) {
	store, err := s.store()
	if err != nil {
		return machines.Machine{}, err
	}
	defer s.machinesChanged()
	return pairing.Store(store, m, key)
}

// store returns the other machines.
func (s *sharing) store() (*machines.Store, error) {
	if s.machines != nil {
		return s.machines, s.machines.Err()
	}
	return machines.Open(filepath.Dir(s.settings.Path()))
}

func (s *sharing) machinesChanged() {
	if s.changed != nil {
		s.changed()
	}
}

// Certificate returns the certificate of this user's Headroom with its private key, as Service
// does. The error is a Problem.
func Certificate() (*tls.Certificate, error) {
	return certificateOf(&sharing{settings: OpenSettings(), vault: OpenVault()})
}

func certificateOf(s *sharing) (*tls.Certificate, error) {
	id, err := s.identity()
	if err != nil {
		return nil, err
	}
	return &id.Certificate, nil
}

// certificate returns this machine's certificate with its private key. Paired machines ask for it.
func (s *Service) certificate() (*tls.Certificate, error) { return certificateOf(s.sharing) }

// pairedKeys are the API keys of paired machines.
type pairedKeys struct{ *keys.Store }

// Make implements pairing.Keys.
func (k pairedKeys) Make(machine, certificate string) (string, error) {
	_, text, err := k.AddPaired(machine, certificate)
	return text, err
}

// shared returns the open port. The error is a Problem.
func (s *sharing) shared() (*sharedPort, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.running != nil:
		return s.running, nil
	case s.failure != nil:
		return nil, s.failure
	}
	return nil, problem.New(problem.BadRequest, "This machine is not shared with others", "",
		"Switch it on with `headroom pair --share` or in Settings, Machines.")
}

// Sharing implements control.Pairing.
func (s *Service) Sharing() control.Sharing { return s.sharing.state() }

func (s *sharing) state() control.Sharing {
	s.mu.Lock()
	p, failure := s.running, s.failure
	s.mu.Unlock()
	state := control.Sharing{On: s.on(), Open: p != nil, Name: pairing.MachineName(),
		Addresses: []string{}, Port: s.portNumber(), Users: []control.PairedMachine{},
		Found: []control.FoundMachine{}, ReadOnly: []string{}}
	if s.always != nil {
		state.ReadOnly = append(state.ReadOnly, "on")
	}
	if failure != nil {
		state.Problem = host.NewError(problem.From(failure))
	}
	if p != nil {
		state.Port, state.Certificate = p.port, pairing.Short(p.identity.Fingerprint)
		state.Addresses = pairing.Addresses(s.listen, p.port)
		state.Code = codeOf(p.Offer())
	}
	for _, k := range s.keys.List() {
		if k.Certificate != "" {
			state.Users = append(state.Users, control.PairedMachine{KeyID: k.ID, Name: k.Name,
				Certificate: pairing.Short(k.Certificate), PairedAtUnixMs: unixMs(k.Created),
				LastUsedAtUnixMs: unixMs(k.LastUse)})
		}
	}
	s.found(&state)
	if s.find != nil {
		state.ReadOnly = append(state.ReadOnly, "find")
	}
	return state
}

// unixMs returns a time in milliseconds since 1970; 0 for the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func codeOf(o pairing.Offer) control.PairingCode {
	return control.PairingCode{Phase: o.Phase, Code: pairing.Grouped(o.Code),
		ExpiresAtUnixMs: unixMs(o.Expires), Tries: o.Tries, Machine: o.Machine}
}

// ChangeSharing implements control.Pairing.
func (s *Service) ChangeSharing(share, find *bool) error { return s.sharing.change(share, find) }

func (s *sharing) change(share, find *bool) error {
	if share != nil && s.always != nil || find != nil && s.find != nil {
		return problem.New(problem.BadRequest, "This setting cannot be changed here",
			"it is set on the command line", "Start Headroom without that flag.")
	}
	err := s.settings.Change(func(now *settings.Settings) {
		if share != nil {
			now.ShareWithMachines = *share
		}
		if find != nil {
			now.FindMachines = *find
		}
	})
	if err != nil {
		return problem.Wrap(problem.Internal, err,
			"The settings could not be saved; they apply until Headroom quits", "")
	}
	return s.apply()
}

// ShowCode implements control.Pairing.
func (s *Service) ShowCode(both bool) error {
	p, err := s.sharing.shared()
	if err == nil {
		p.Show(both)
	}
	return err
}

// HideCode implements control.Pairing.
func (s *Service) HideCode() {
	if p, err := s.sharing.shared(); err == nil {
		p.Hide()
	}
}

// Join implements control.Pairing.
func (s *Service) Join(ctx context.Context, address, code string, both bool) (
	control.JoinedMachine, error) {
	j := JoinOptions{Address: address, Code: code}
	if p, err := s.sharing.shared(); err == nil && both {
		j.BackPort = p.port
	} else if both {
		return control.JoinedMachine{}, err
	}
	return s.sharing.join(ctx, j)
}

// JoinOptions are the parameters of Join.
type JoinOptions struct {
	Address, Code string // as a person has typed them
	// BackPort is the port for machines of a running Headroom of this user, if the other machine
	// may use it; 0: it may not.
	BackPort int
}

// Join pairs this machine with one that shows a code, and stores that one. It needs no service. The
// error is a Problem.
func Join(ctx context.Context, file *settings.File, store *keys.Store, v *vault.Vault,
	j JoinOptions) (control.JoinedMachine, error) {
	return (&sharing{settings: file, keys: store, vault: v}).join(ctx, j)
}

func (s *sharing) join(ctx context.Context, o JoinOptions) (control.JoinedMachine, error) {
	address, err := pairing.ParseAddress(o.Address)
	if err != nil {
		return control.JoinedMachine{}, err
	}
	code, err := pairing.ParseCode(o.Code)
	if err != nil {
		return control.JoinedMachine{}, err
	}
	id, err := s.identity()
	if err != nil {
		return control.JoinedMachine{}, err
	}
	j := pairing.Joining{Identity: id, Name: pairing.MachineName(), Address: address, Code: code}
	if o.BackPort > 0 {
		j.Back = func(name, certificate string) (pairing.Back, error) {
			return s.back(name, certificate, o.BackPort)
		}
	}
	joined, failed := pairing.Join(ctx, j)
	if joined.Key == "" {
		return control.JoinedMachine{}, failed
	}
	m, err := s.addMachine(joined.Machine, joined.Key)
	if err = errors.Join(err, failed); err != nil {
		return control.JoinedMachine{}, problem.From(err)
	}
	return control.JoinedMachine{Name: m.Name, Address: address, Both: joined.Both}, nil
}

// back makes a key by which the other machine may use this one. It replaces an earlier key once the
// other machine has stored it, and is removed if that fails. The error is a Problem.
func (s *sharing) back(name, certificate string, port int) (pairing.Back, error) {
	k, text, err := s.keys.OfferPaired(name, certificate)
	return pairing.Back{Port: port, Key: text, End: func(stored bool) {
		if stored {
			if err := s.keys.KeepPaired(k.ID, name); err != nil {
				slog.Warn("earlier keys of a paired machine could not be removed", "machine", name,
					"err", err)
			}
		} else if _, _, err := s.keys.Remove(k.ID); err != nil {
			slog.Warn("the key of a failed pairing could not be removed", "key", k.Name, "err", err)
		}
	}}, err
}

// endpointForMachines returns the handler of a server for paired machines. They may use the models
// of this machine, and not its other machines, of which one may be a server that is paid for.
func endpointForMachines(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set(server.ForwardedHeader, "1")
		inside.ServeHTTP(w, server.CleanPath(r))
	})
}
