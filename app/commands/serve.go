package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"headroom/app/control"
	"headroom/app/host"
	"headroom/app/version"
	"headroom/engine/server"
)

// Serve is `headroom serve`.
type Serve struct {
	ModelFlags
	Model     string   `help:"Model to load: an ID, a name or a folder. Default: the bundled demo model." placeholder:"DIR_OR_NAME"`
	Host      string   `help:"Address to listen on; 0.0.0.0 opens it to the network." default:"127.0.0.1"`
	Port      int      `help:"Port to listen on; 0: any free one." default:"11811"`
	APIKey    string   `name:"api-key" env:"HEADROOM_API_KEY" help:"Key that requests must carry." placeholder:"KEY"`
	AllowHost []string `help:"Further host names under which it may be reached." placeholder:"NAME" sep:","`
}

// drainTime is how long answers may go on after Ctrl-C; a second Ctrl-C does not wait.
const drainTime = 10 * time.Second

// Run listens first, so that a taken port is found before the model is read, and serves while it loads.
func (c *Serve) Run(ctx context.Context, t *terminal) error {
	listener, err := listen(c.Host, c.Port)
	if err != nil {
		return err
	}
	defer listener.Close()
	h := c.newHost()
	defer h.Close()
	address := reachable(listener.Addr().String())
	h.SetEndpoint(host.Endpoint{URL: "http://" + address + "/v1", UIURL: "http://" + address + "/"})

	token := loadToken()
	guard := &server.Guard{Listen: c.Host, AllowHosts: c.AllowHost, APIKey: c.APIKey, Instead: control.TokenCheck(token)}
	api := control.New(control.Options{Host: h, Token: token, Guard: guard, Server: server.New(server.Options{Models: h, Guard: guard})})

	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener, api, drainTime, api.Close) }()
	if err := load(ctx, h, c.Model, t.err); err != nil {
		if ctx.Err() != nil {
			return <-served
		}
		return err
	}
	c.greet(t.out, h.State(), address, token)
	return <-served
}

// loadToken falls back to one for this run where settings cannot be kept.
func loadToken() string {
	dir, err := control.SettingsDir()
	if err == nil {
		var token string
		if token, err = control.LoadToken(dir); err == nil {
			return token
		}
	}
	slog.Warn("the web UI's address will change with the next start", "err", err)
	return control.NewToken()
}

// greet says where everything is.
func (c *Serve) greet(out io.Writer, s host.State, address, token string) {
	body, _ := json.Marshal(map[string]any{
		"model":    s.Engine.Model,
		"messages": []map[string]string{{"role": "user", "content": "What is a KV cache?"}},
	})
	key := ""
	if c.APIKey != "" {
		key = " -H " + quote("Authorization: Bearer "+c.APIKey)
	}
	fmt.Fprintf(out, "Headroom %s: %s is ready (%s, %d tokens of context)\n", version.Version, s.Engine.Model, s.Engine.Device, s.Engine.ContextTokens)
	fmt.Fprintf(out, "endpoint: http://%s/v1\n", address)
	fmt.Fprintf(out, "web UI: http://%s/#token=%s\n", address, token)
	fmt.Fprintf(out, "try: curl http://%s/v1/chat/completions -H 'Content-Type: application/json'%s -d %s\n", address, key, quote(string(body)))
}

// quote makes a text one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// reachable is the address to tell people: a server that listens everywhere is on loopback too.
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
