// Package service serves a machine's models: the endpoint, the control API and the web UI on one
// address. `headroom serve` and the menu-bar app both run one Service.
//
// New (service.go) opens the port and builds the host, the guard and the handlers. Models are
// loaded later, through the host. port.go says why a port cannot be opened, and joined.go opens a
// second one. sharing.go has the port for other machines. transfers.go and pull.go have imports and
// downloads, remove.go what clients delete, updates.go new versions of Headroom, and unfinished.go
// stores the jobs that a restart interrupts.
package service

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"headroom/app/agents"
	"headroom/app/batches"
	"headroom/app/cache"
	"headroom/app/chats"
	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/keys"
	"headroom/app/library"
	"headroom/app/logs"
	"headroom/app/machines"
	"headroom/app/pairing"
	"headroom/app/power"
	"headroom/app/route"
	"headroom/app/settings"
	"headroom/app/update"
	"headroom/app/vault"
	"headroom/app/version"
	"headroom/engine"
	"headroom/engine/anthropic"
	"headroom/engine/decisions"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/ollama"
	"headroom/engine/openai"
	"headroom/engine/problem"
	"headroom/engine/rerank"
	"headroom/engine/responses"
	"headroom/engine/seal"
	"headroom/engine/server"
)

// Dialects are the HTTP APIs of the endpoint. A new dialect needs a package and a row here.
var Dialects = []server.Dialect{
	openai.Dialect{},
	anthropic.Dialect{},
	ollama.Dialect{},
	responses.New(),
	decisions.Dialect{},
	rerank.Dialect{},
	route.Dialect{},
}

// Options configure a Service. NewHost and NewMover are required. With zero values in the other
// fields, the service listens on a free port of all interfaces; set Listen to restrict it.
type Options struct {
	Listen   string // host name or address to listen on; "": all interfaces
	Port     int    // 0: any free port
	APIKey   string // the key without a name; "": that of the settings, if any
	AlsoPort int    // another port, if it is free; 0: none
	NoAPIKey bool   // let everybody on the network use a server without a key

	// Share opens the port for other machines; nil: if the settings say so. MachinesListen is the
	// host name or address that it listens on, "" for all interfaces. MachinesPort is 0 for that of
	// the settings, negative for any free one. Find lists other machines on the local network; nil:
	// if the settings say so.
	Share, Find    *bool
	MachinesListen string
	MachinesPort   int
	Network        pairing.Network // where machines are found

	// AllowHosts and AllowOrigins are described at guard.Guard.
	AllowHosts, AllowOrigins []string

	// NewHost returns the host that finds and runs models. Service.Close closes it.
	NewHost func(*settings.File) *host.Host
	// NewMover returns a Mover of the host's cache on disk. The error is a Problem.
	NewMover func(*host.Host, *settings.File) (*cache.Mover, error)

	// These fields are documented at control.Options.
	CacheFlags   settings.Cache
	ModelFlags   settings.Model
	ModelOptions func(s settings.Settings, modelID string) engine.Options
	ReadOnly     []string
	Login        control.LoginItem
	Logs         *logs.Logs
	ShowWindow   func() error

	// Defaults are parameters of requests that do not have them. They override the settings'.
	Defaults generate.Defaults

	Settings *settings.File  // nil: the result of OpenSettings
	Keys     *keys.Store     // nil: the result of OpenKeys
	Vault    *vault.Vault    // of the chats; nil: the result of OpenVault
	Machines *machines.Store // the other machines; nil: the result of OpenMachines
}

// Service is the endpoint, the control API and the web UI on one address.
type Service struct {
	Host    *host.Host
	Address string // the address for clients on this machine, such as "127.0.0.1:11811"
	Token   string // the token of the control API
	Updates *update.Updater
	Router  *route.Router // to the engines of other machines

	listener net.Listener
	api      *control.API
	jobs     *jobs.List
	withdraw func() // undoes announce; nil if announce failed
	endJobs  func() // stops saving unfinished jobs
	settings *settings.File
	keys     *keys.Store
	vault    *vault.Vault
	access   *guard.Guard
	sharing  *sharing
	chats    *chats.Store // nil without a home folder
	batches  *batches.Store
	logs     *logs.Logs   // nil: none
	erasing  sync.Mutex   // held while everything is deleted
	awake    *power.Awake // keeps the machine awake during requests
}

// New opens the port. It loads no model. Close ends the service. The error is a Problem, with the
// code problem.PortTaken if the port cannot be opened.
func New(o Options) (*Service, error) {
	if o.Settings == nil {
		o.Settings = OpenSettings()
	}
	if o.Keys == nil {
		o.Keys = OpenKeys(o.Settings)
	}
	if err := o.CheckOpen(); err != nil {
		return nil, err
	}
	listener, err := listen(o.Listen, o.Port, ownPort)
	if err != nil {
		return nil, err
	}
	listener = also(listener, o.Listen, o.AlsoPort)
	if o.Vault == nil {
		o.Vault = OpenVault()
	}
	s := &Service{Host: o.NewHost(o.Settings), Address: reachable(listener.Addr().String()),
		Token: loadToken(), listener: listener, jobs: jobs.NewList(), awake: power.New(),
		settings: o.Settings, keys: o.Keys, vault: o.Vault, chats: openChats(o.Vault), logs: o.Logs}
	if o.Machines == nil {
		o.Machines = OpenMachines(o.Settings)
	}
	s.Router = route.New(route.Options{Machines: o.Machines, Here: s.Host, Own: s.certificate})
	s.batches = s.newBatches()
	s.Updates = newUpdates(o.Settings)
	transfers := newTransfers(s.jobs, o.Settings, s.listed)
	transfers.Trainer.Awake = s.awake.Begin
	transfers.Mover = func() (*cache.Mover, error) { return o.NewMover(s.Host, o.Settings) }
	s.endJobs = KeepJobs(filepath.Dir(o.Settings.Path()), s.jobs, transfers)
	s.Host.SetEndpoint(host.Endpoint{URL: "http://" + s.Address + "/v1",
		UIURL: "http://" + s.Address + "/"})
	access := o.guard(s.Token)
	s.access = access
	if access.Open() {
		slog.Warn("everyone on the network can use this server: it needs no API key",
			"listen", o.Listen)
	}
	endpoint := s.endpoint(o, access, s.newPuller(transfers))
	s.sharing = &sharing{settings: o.Settings, keys: o.Keys, vault: o.Vault,
		refuse: endpoint.Refuse, machines: o.Machines, changed: s.Router.Reload,
		endpoint: s.awake.Handler(endpointForMachines(endpoint.Inside())),
		listen:   o.MachinesListen, port: o.MachinesPort, always: o.Share, find: o.Find,
		network: o.Network}
	s.api = control.New(control.Options{
		Host: s.Host, Token: s.Token, Guard: access, ShowWindow: o.ShowWindow,
		Settings: o.Settings, CacheFlags: o.CacheFlags, ReadOnly: o.ReadOnly, Login: o.Login,
		Logs: o.Logs, ModelFlags: o.ModelFlags, ModelOptions: o.ModelOptions,
		Transfers: transfers, Chats: s.chats, Keys: s.keys, Stored: s,
		Machines: o.Machines, Router: s.Router,
		Agents:  agents.New(filepath.Dir(o.Settings.Path()), agents.Here(), s.keys),
		Updates: s.Updates, Pairing: s,
		Server: s.awake.Handler(endpoint), ServerPaths: endpoint.Paths()})
	s.batches.Start(s.awake.Handler(endpoint.Inside()), endpoint.Spare())
	s.announce()
	if err := s.sharing.apply(); err != nil {
		if o.Share != nil && *o.Share { // asked for on the command line
			s.Close()
			return nil, err
		}
		slog.Warn("other machines cannot use this one", "err", err)
	}
	return s, nil
}

// CheckOpen returns a Problem if everybody on the network could use the server, and nobody asked
// for that. New calls it.
func (o *Options) CheckOpen() error {
	if o.NoAPIKey || !o.guard("").Open() {
		return nil
	}
	return problem.New(problem.Unauthorized,
		"Headroom does not open to the network without an API key",
		"other computers can reach it at "+cmp.Or(o.Listen, "all addresses"),
		"Make a key with `headroom keys add NAME` or in Settings, or set one with --api-key-file "+
			"or HEADROOM_API_KEY. To let everybody on the network use it, add --no-api-key.")
}

// guard returns the access rules. Changes of the settings apply at once.
func (o *Options) guard(token string) *guard.Guard {
	var named guard.Keys
	if o.Keys != nil {
		named = o.Keys
	}
	return &guard.Guard{Listen: cmp.Or(o.Listen, "0.0.0.0"), AllowHosts: o.AllowHosts, Keys: named,
		AllowOrigins: o.AllowOrigins,
		APIKey:       o.APIKey,
		NoKey:        o.NoAPIKey,
		Bypass:       control.TokenCheck(token), Live: func() guard.Access {
			if o.Settings == nil {
				return guard.Access{}
			}
			now := o.Settings.Get()
			return guard.Access{APIKey: now.APIKey, KeyLost: now.KeyLost(),
				AllowHosts: now.AllowHosts, AllowOrigins: now.AllowOrigins}
		}}
}

// endpoint returns the handler of the dialects.
func (s *Service) endpoint(o Options, access *guard.Guard, p *puller) *server.Server {
	return server.New(server.Options{Models: route.Models{HereModels: s.Host, Router: s.Router},
		Guard: access, Elsewhere: s.Router,
		Dialects: append(slices.Clone(Dialects), s.batches),
		Version:  version.Version, Pull: p.pull, Delete: s.newRemover().remove,
		Defaults: func(modelID string) generate.Defaults {
			return o.Defaults.Or(control.RequestDefaults(o.Settings.Get().ForModel(modelID)))
		}})
}

// NeedsKey reports whether requests need an API key.
func (s *Service) NeedsKey() bool { return s.access.NeedsKey() }

// Jobs returns the imports and downloads of the service.
func (s *Service) Jobs() *jobs.List { return s.jobs }

// Chats returns the conversations of the Chat page; nil without a home folder.
func (s *Service) Chats() *chats.Store { return s.chats }

// announce lets `headroom cache` find this server.
func (s *Service) announce() {
	dir, err := control.SettingsDir()
	if err == nil {
		s.withdraw, err = control.Announce(dir, "http://"+s.Address+"/")
	}
	if err != nil {
		slog.Warn("headroom cache will not find this server", "err", err)
	}
}

// The service ends within about three seconds. A second Ctrl-C does not wait.
const (
	// drainTime is how long running requests may take. Those that take longer end with an error.
	drainTime = time.Second
	// closeTime is how long Close may take. The model's process ends before; see host.Close. What
	// is left then is a transfer that does not stop, or a slow disk.
	closeTime = 3 * time.Second
)

// Serve answers requests until ctx ends; see server.Serve.
func (s *Service) Serve(ctx context.Context) error {
	checking, stop := context.WithCancel(ctx)
	var updates sync.WaitGroup
	updates.Go(func() { s.Updates.Run(checking) })
	updates.Go(func() { s.Router.Run(checking) })
	defer updates.Wait()
	defer stop()
	return server.Serve(ctx, s.listener, s.api,
		server.ServeOptions{Drain: drainTime, Closing: s.api.Close})
}

// Close closes the port, unloads the model and applies an update that is ready. Serve must have
// returned.
func (s *Service) Close() {
	if s.withdraw != nil {
		s.withdraw()
	}
	_ = s.listener.Close() // Serve may have closed it
	s.batches.Close()
	s.awake.Close()
	var closing sync.WaitGroup
	closing.Go(s.sharing.close)
	closing.Go(func() {
		s.jobs.Close()
		s.endJobs()
	})
	closing.Go(s.Host.Close)
	closing.Go(func() {
		if err := s.keys.Close(); err != nil {
			slog.Warn("the usage of API keys could not be saved", "err", err)
		}
	})
	closed := make(chan struct{})
	go func() {
		closing.Wait()
		close(closed)
	}()
	select {
	case <-closed:
		s.applyUpdate()
	case <-time.After(closeTime):
		slog.Warn("a transfer or the model does not end in time; the system ends it", "after",
			closeTime)
	}
}

// OpenSettings reads the user's settings. If that fails, the defaults apply.
func OpenSettings() *settings.File {
	dir, err := control.SettingsDir()
	if err != nil {
		slog.Warn("the settings cannot be found", "err", err)
	}
	file, err := control.OpenSettings(dir)
	if err != nil {
		slog.Warn("not all settings apply", "err", err)
	}
	return file
}

// OpenKeys reads the named API keys, which are beside the settings. If that fails, no named key is
// accepted, and requests need one.
func OpenKeys(file *settings.File) *keys.Store {
	store, err := keys.Open(filepath.Dir(file.Path()))
	if err != nil {
		slog.Error("the endpoint is closed", "err", err)
	}
	return store
}

// OpenMachines reads the other machines, which are beside the settings. If that fails, none is
// used.
func OpenMachines(file *settings.File) *machines.Store {
	store, err := machines.Open(filepath.Dir(file.Path()))
	if err != nil {
		slog.Error("no other machine is used", "err", err)
	}
	return store
}

// vaults are this process's vaults, by settings folder. A vault remembers its key: after one has
// destroyed it, another would still give the cache a key that no later process can find.
var vaults sync.Map

// OpenVault returns the place of the installation's key; nil without a settings folder. It reads
// nothing. All callers of a process share it.
func OpenVault() *vault.Vault {
	dir, err := control.SettingsDir()
	if err != nil {
		return nil
	}
	v, _ := vaults.LoadOrStore(dir, vault.Open(dir))
	return v.(*vault.Vault)
}

// CacheFolders returns the list of folders in which the user has had a cache; nil without a
// settings folder.
func CacheFolders() *cache.Folders {
	dir, err := control.SettingsDir()
	if err != nil {
		return nil
	}
	return cache.OpenFolders(filepath.Join(dir, "caches"))
}

// openChats opens the Chat page's conversations; nil without a home folder.
func openChats(v *vault.Vault) *chats.Store {
	data := library.Data()
	if data == "" {
		slog.Warn("conversations are not saved: there is no home folder")
		return nil
	}
	return chats.Open(filepath.Join(data, "chats"), v.Key)
}

// batchesDir returns the folder of files and batches; "" without a home folder.
func batchesDir() string {
	data := library.Data()
	if data == "" {
		return ""
	}
	return filepath.Join(data, "batches")
}

// newBatches returns the files and batches of clients. Without a home folder every request for them
// fails.
func (s *Service) newBatches() *batches.Store {
	key := s.vault.Key
	dir := batchesDir()
	if dir == "" {
		key = func() (seal.Key, error) {
			return seal.Key{}, problem.New(problem.NotFound, "There is no home folder", "", "")
		}
	}
	return batches.New(batches.Options{Dir: dir, Key: key, Caller: s.keys.Background})
}

// loadToken returns the saved token, or a new one for this run if it cannot be saved.
func loadToken() string {
	dir, err := control.SettingsDir()
	if err == nil {
		var token string
		if token, err = control.LoadToken(dir); err == nil {
			return token
		}
	}
	slog.Warn("the web UI's address will change at the next start", "err", err)
	return control.NewToken()
}

// reachable returns the address at which this machine reaches a server. For a server on all
// interfaces, that is the loopback address.
func reachable(listening string) string {
	hostName, port, err := net.SplitHostPort(listening)
	if ip := net.ParseIP(hostName); err == nil && ip != nil && ip.IsUnspecified() {
		return "127.0.0.1:" + port
	}
	return listening
}

func listen(hostName string, port int, choose portAdvice) (net.Listener, error) {
	address := net.JoinHostPort(hostName, strconv.Itoa(port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenProblem(err, hostName, port, choose)
	}
	return listener, nil
}
