package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headroom/app/control"
	"headroom/app/disk"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/app/version"
	"headroom/engine/guard"
	"headroom/engine/problem"
)

// Serve is `headroom serve`.
type Serve struct {
	ModelFlags
	ModelArg          string        `arg:"" optional:"" name:"model" help:"The same as --model." placeholder:"DIR_OR_NAME"`
	Model             string        `help:"Model to load: an ID, a name, an alias or a folder. Default: the bundled demo model." placeholder:"DIR_OR_NAME"`
	Host              string        `help:"Address to listen on; 0.0.0.0 opens it to the network." default:"127.0.0.1"`
	Port              int           `help:"Port to listen on; 0: any free one." default:"11811"`
	OllamaPort        *bool         `help:"Listen on Ollama's port, 11434, too, if it is free. Default: ollamaPort in the settings, or false." placeholder:"BOOL"`
	APIKey            string        `name:"api-key" env:"HEADROOM_API_KEY" help:"Key that requests must carry. Others on this machine can see a command's flags: prefer the variable or --api-key-file." placeholder:"KEY"`
	APIKeyFile        string        `name:"api-key-file" env:"HEADROOM_API_KEY_FILE" type:"path" help:"File with the key, instead of --api-key." placeholder:"FILE"`
	NoAPIKey          bool          `name:"no-api-key" help:"Let everybody on the network use a server that --host opens to it."`
	IdleUnload        time.Duration `aliases:"rest-after" help:"Unload an idle model after this time; the next request loads it again. Default: idleUnloadMinutes in the settings, or never." placeholder:"DURATION"`
	LoadOnRequest     *bool         `help:"Let a request load the model that it names; =false answers only for models that were started. Default: loadOnRequest in the settings, or true." placeholder:"BOOL"`
	RequestWait       time.Duration `help:"How long a request waits until its model is loaded. Default: requestWaitMinutes in the settings, or 10m." placeholder:"DURATION"`
	InProcess         bool          `help:"Run the model in the server's process; a crash then ends the server too."`
	ShareWithMachines *bool         `help:"Open the port for other Headrooms that were paired with this one; see pair. Default: shareWithMachines in the settings, or false." placeholder:"BOOL"`
	MachinesHost      string        `help:"Address that the port for other machines listens on." default:"0.0.0.0"`
	MachinesPort      *int          `help:"Port for other machines; 0: any free one. Default: machinesPort in the settings, or 11812." placeholder:"PORT"`
	FindMachines      *bool         `help:"Find other Headrooms on the local network, and let them find this one while it is shared. Default: findMachines in the settings, or false." placeholder:"BOOL"`
	AllowHost         []string      `help:"Additional host names by which requests may address this machine." placeholder:"NAME" sep:","`
	AllowOrigin       []string      `aliases:"allowed-origins" help:"Web pages and apps that may use the endpoint, by origin: app://obsidian.md, vscode-webview://*." placeholder:"ORIGIN" sep:","`

	RequestFlags
	WithoutEffect
}

// Validate rejects flags that are not valid, and a model that is named twice. kong calls it.
func (c *Serve) Validate() error {
	if c.ModelArg != "" && c.Model != "" {
		return fmt.Errorf("--model names %s, and the argument %s: name one of them", c.Model,
			c.ModelArg)
	}
	return c.ModelFlags.Validate()
}

// Run listens before it loads the model, so that a port in use is reported immediately. It serves
// while the model loads.
func (c *Serve) Run(ctx context.Context, t *terminal) error {
	if err := c.readKey(); err != nil {
		return err
	}
	c.Model = cmp.Or(c.Model, c.ModelArg)
	for _, name := range c.AllowHost {
		if !guard.ValidHost(name) {
			return problem.New(problem.BadRequest,
				fmt.Sprintf("--allow-host %q is not valid", name),
				"a host name has no port, path or wildcard", "Give "+bareHost(name)+".")
		}
	}
	for _, origin := range c.AllowOrigin {
		if !guard.ValidOrigin(origin) {
			return problem.New(problem.BadRequest, "--allow-origin "+origin+" is not valid",
				"an origin has a scheme and a host, and no path",
				"Give one such as app://obsidian.md, or vscode-webview://*.")
		}
	}
	if port := c.MachinesPort; port != nil && (*port < 0 || *port > 65535) {
		return problem.New(problem.BadRequest,
			fmt.Sprintf("--machines-port %d is not valid", *port), "ports are 1 to 65535",
			"Leave it out for 11812, or give any free port above 1023.")
	}
	c.WithoutEffect.say(t.err)
	defaults, err := c.RequestFlags.defaults()
	if err != nil {
		return err
	}
	o := c.ModelFlags.ServiceOptions(ServiceUse{InProcess: c.InProcess, IdleUnload: c.IdleUnload,
		LoadOnRequest: c.LoadOnRequest, RequestWait: c.RequestWait})
	o.Listen, o.Port, o.APIKey, o.AllowHosts = c.Host, c.Port, c.APIKey, c.AllowHost
	o.AllowOrigins, o.Defaults = c.AllowOrigin, defaults
	o.ReadOnly, o.Logs, o.NoAPIKey = c.readOnlySettings(), t.logs, c.NoAPIKey
	o.Settings = service.OpenSettings()
	if c.OllamaPort != nil && *c.OllamaPort || c.OllamaPort == nil && o.Settings.Get().OllamaPort {
		o.AlsoPort = service.OllamaPort
	}
	o.Share, o.Find = c.ShareWithMachines, c.FindMachines
	o.MachinesListen = c.MachinesHost
	if c.MachinesPort != nil {
		o.MachinesPort = *c.MachinesPort
		if o.MachinesPort == 0 {
			o.MachinesPort = -1 // any
		}
	}
	return c.serve(ctx, o, t)
}

// bareHost returns what to give instead of an invalid host name: the name in it, or an example.
func bareHost(given string) string {
	_, rest, ok := strings.Cut(given, "://")
	if !ok {
		rest = given
	}
	u, err := url.Parse("//" + rest)
	if err == nil && guard.ValidHost(u.Hostname()) {
		return "the name alone: --allow-host " + u.Hostname()
	}
	return "a name such as my-mac.local"
}

// serve runs a service with these options.
func (c *Serve) serve(ctx context.Context, o service.Options, t *terminal) error {
	s, err := service.New(o)
	if err != nil {
		return err
	}
	defer s.Close()
	// The address answers at once. Requests wait until the model has been found and loaded.
	started, served := s.Host.StartLater(c.Model), make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	select {
	case err := <-started:
		if err != nil {
			return blameSettings(sayDownload(err, c.Model), o.Settings, c.Model)
		}
	case <-ctx.Done():
		return <-served
	}
	first := s.Host.StartedLater()
	if err := awaitModel(ctx, s.Host, o.Settings, t.err); err != nil {
		// A model that somebody started meanwhile, or a stop, must not end the server.
		replaced := s.Host.State().Engine.Model != first
		if ctx.Err() == nil && !replaced {
			return err
		}
		if replaced {
			fmt.Fprintf(t.err, "%s was not loaded, because another model was started. The server "+
				"goes on at http://%s/\n", first, s.Address)
		}
		return <-served
	}
	c.greet(t.out, s)
	return <-served
}

// readOnlySettings returns the names of the settings that this command ignores or that its flags
// override.
func (c *Serve) readOnlySettings() []string {
	readOnly := []string{"port", "launch", "logLevel", "notifications",
		"menuBarFigure"}
	if c.APIKey != "" {
		readOnly = append(readOnly, "apiKey")
	}
	if c.IdleUnload > 0 {
		readOnly = append(readOnly, "idleUnloadMinutes")
	}
	if c.LoadOnRequest != nil {
		readOnly = append(readOnly, "loadOnRequest")
	}
	if c.RequestWait > 0 {
		readOnly = append(readOnly, "requestWaitMinutes")
	}
	if c.OllamaPort != nil {
		readOnly = append(readOnly, "ollamaPort")
	}
	return readOnly
}

// readKey reads the API key from its file, if one is given.
func (c *Serve) readKey() error {
	if c.APIKeyFile == "" {
		if !settings.Sendable(c.APIKey) {
			return problem.New(problem.BadRequest, "The API key is not valid",
				"no request can send it: it has a space at an end, or a control character",
				"Use a key of letters, digits and punctuation with --api-key or HEADROOM_API_KEY.")
		}
		return nil
	}
	const most = 4096 // bytes; a longer file is a mistake
	fail := func(why string) error {
		return problem.New(problem.BadRequest, "The API key could not be read", why,
			"--api-key-file needs a file with one line: the key.")
	}
	info, err := os.Stat(c.APIKeyFile)
	switch {
	case err != nil:
		return fail(err.Error())
	case !info.Mode().IsRegular():
		return fail(c.APIKeyFile + " is not a file")
	case info.Size() > most:
		return fail(fmt.Sprintf("%s has %d bytes, the limit is %d", c.APIKeyFile, info.Size(),
			most))
	case info.Mode().Perm()&0o077 != 0:
		slog.Warn("others on this machine can read the API key", "file", c.APIKeyFile,
			"mode", info.Mode().Perm(), "fix", "chmod 600 "+c.APIKeyFile)
	}
	data, _, err := disk.Read(c.APIKeyFile, most)
	if err != nil {
		return fail(err.Error())
	}
	c.APIKey = strings.TrimSpace(string(data))
	if c.APIKey == "" || !settings.Sendable(c.APIKey) {
		return fail(c.APIKeyFile + " does not have one line")
	}
	return nil
}

// greet prints the addresses. Standard output often goes to a log that others read: it never gets
// the API key, and the token of the web UI only on a terminal.
func (c *Serve) greet(out io.Writer, served *service.Service) {
	s, address, token := served.Host.State(), served.Address, served.Token
	model := s.Engine.Model
	if m, err := served.Host.Acquire(c.Model); err == nil && m.ID == model {
		model = m.Name() // with its adapter
	}
	body, _ := json.Marshal(map[string]any{
		"model":    model,
		"messages": []map[string]string{{"role": "user", "content": "What is a KV cache?"}},
	})
	key := ""
	if served.NeedsKey() {
		key = ` -H "Authorization: Bearer $HEADROOM_API_KEY"`
	}
	fmt.Fprintf(out, "Headroom %s: %s is ready (%s, %d tokens of context)\n", version.Version,
		model, s.Engine.Device, s.Engine.ContextTokens)
	fmt.Fprintln(out, "decoding ahead: "+waysOf(s.Engine))
	fmt.Fprintf(out, "endpoint: http://%s/v1\n", address)
	if c.Host == "0.0.0.0" || c.Host == "::" {
		fmt.Fprintln(out, "other computers: the same port at an address of this one")
	}
	if isTerminal(out) {
		fmt.Fprintf(out, "web UI: http://%s/#token=%s\n", address, token)
	} else {
		dir, _ := control.SettingsDir()
		fmt.Fprintf(out, "web UI: http://%s/\ntoken: add #token= and the text of %s\n", address,
			filepath.Join(dir, "token"))
	}
	fmt.Fprintf(out,
		"try: curl http://%s/v1/chat/completions -H 'Content-Type: application/json'%s -d %s\n",
		address, key, quote(string(body)))
}

// quote returns s as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
