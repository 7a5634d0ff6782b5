package commands

// The service that the agent and `headroom serve` share: the port, the host, the guard and the
// handlers. Models are loaded later, through the host.

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"headroom/app/cache"
	"headroom/app/chats"
	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/library"
	"headroom/app/logs"
	"headroom/app/power"
	"headroom/app/settings"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/openai"
	"headroom/engine/server"
)

// dialects are the HTTP APIs of the endpoint. A new one is a package and a row here.
var dialects = []server.Dialect{
	openai.Dialect{},
}

// ServiceOptions configure a Service. The zero value listens on a free port of all interfaces, so
// set Host.
type ServiceOptions struct {
	ModelFlags
	Host      string // address to listen on
	Port      int    // 0: any free one
	APIKey    string // "": none is needed
	AllowHost []string
	InProcess bool // run the model in this process instead of a separate one
	// RestAfter is the idle time after which a model is unloaded; 0: that of the settings.
	IdleUnload time.Duration
	Fixed      []string // see control.Options
	Login      control.LoginItem
	Logs       *logs.Logs
	Settings   *settings.File // nil: those of the user's settings folder
	// LastModel starts when no name is given and no model has run yet; "": the bundled model.
	LastModel string
	// ShowWindow handles /api/window/show; nil: there is no window.
	ShowWindow func() error
}

// Service is the endpoint, the control API and the web UI on one address.
type Service struct {
	Host    *host.Host
	Address string // "127.0.0.1:11811": where this machine reaches it
	Token   string // of the control API

	listener net.Listener
	api      *control.API
	jobs     *jobs.List
	withdraw func()       // the announcement; nil if it was impossible
	forget   func()       // ends the keeping of unfinished jobs
	awake    *power.Awake // while a request is worked on
}

// NewService opens the port and loads no model. Close ends the service. The error is a Problem,
// problem.PortTaken if another program listens on the port.
func NewService(o ServiceOptions) (*Service, error) {
	listener, err := listen(o.Host, o.Port)
	if err != nil {
		return nil, err
	}
	if o.Settings == nil {
		o.Settings = openSettings()
	}
	use := hostUse{lastModel: o.LastModel, ssd: true, watch: true, power: true,
		worker: !o.InProcess, restAfter: func() time.Duration {
			return cmp.Or(o.IdleUnload, time.Duration(o.Settings.Get().RestMinutes)*time.Minute)
		}}
	s := &Service{Host: o.newHost(o.Settings, use), Address: reachable(listener.Addr().String()),
		Token: loadToken(), listener: listener}
	s.jobs, s.awake = jobs.NewList(), power.New()
	transfers := s.transfers(o.Settings)
	transfers.Mover = func() (*cache.Mover, error) { return o.mover(s.Host, o.Settings) }
	s.forget = keepJobs(filepath.Dir(o.Settings.Path()), s.jobs, transfers)
	s.Host.SetEndpoint(host.Endpoint{URL: "http://" + s.Address + "/v1",
		UIURL: "http://" + s.Address + "/"})
	access := &guard.Guard{Listen: o.Host, AllowHosts: o.AllowHost, APIKey: o.APIKey,
		Bypass: control.TokenCheck(s.Token), Live: func() guard.Access {
			now := o.Settings.Get()
			return guard.Access{APIKey: now.APIKey, AllowHosts: now.AllowHosts}
		}}
	s.api = control.New(control.Options{Host: s.Host, Token: s.Token, Guard: access,
		ShowWindow: o.ShowWindow,
		Settings:   o.Settings, CacheFlags: o.given(o.NoPrefixes), Fixed: o.Fixed, Login: o.Login,
		Logs:       o.Logs,
		ModelFlags: o.givenModel(), ModelOptions: o.options, Transfers: transfers,
		Chats: openChats(),
		Server: s.awake.Handler(
			server.New(server.Options{Models: s.Host, Guard: access, Dialects: dialects,
				Defaults: func(id string) generate.Defaults {
					return control.RequestDefaults(o.Settings.Get().ForModel(id))
				}}))})
	s.announce()
	return s, nil
}

// Jobs returns the imports and downloads of the service.
func (s *Service) Jobs() *jobs.List { return s.jobs }

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

// drainTime is how long running answers may take after Ctrl-C. A second Ctrl-C does not wait.
const drainTime = 10 * time.Second

// Serve answers until ctx ends; see server.Serve.
func (s *Service) Serve(ctx context.Context) error {
	return server.Serve(ctx, s.listener, s.api, drainTime, s.api.Close)
}

// Close closes the port and unloads the model. Serve must have returned.
func (s *Service) Close() {
	if s.withdraw != nil {
		s.withdraw()
	}
	_ = s.listener.Close() // Serve may have closed it
	s.awake.Close()
	s.jobs.Close()
	s.forget()
	s.Host.Close()
}

// openSettings reads the user's settings. If that fails, the defaults apply.
func openSettings() *settings.File {
	dir, err := control.SettingsDir()
	if err != nil {
		slog.Warn("settings", "err", err)
	}
	file, err := settings.Open(dir)
	if err != nil {
		slog.Warn("settings", "err", err)
	}
	return file
}

// openChats opens the Chat page's conversations; nil without a home folder.
func openChats() *chats.Store {
	data := library.Data()
	if data == "" {
		slog.Warn("conversations are not kept: there is no home folder")
		return nil
	}
	return chats.Open(filepath.Join(data, "chats"))
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

// reachable returns the address to print: for a server on all interfaces, that of loopback.
func reachable(listening string) string {
	hostName, port, err := net.SplitHostPort(listening)
	if ip := net.ParseIP(hostName); err == nil && ip != nil && ip.IsUnspecified() {
		return "127.0.0.1:" + port
	}
	return listening
}

func listen(hostName string, port int) (net.Listener, error) {
	address := net.JoinHostPort(hostName, strconv.Itoa(port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenProblem(err, hostName, port)
	}
	return listener, nil
}
