package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"headroom/app/host"
	"headroom/app/service"
	"headroom/app/version"
)

// Serve is `headroom serve`.
type Serve struct {
	ModelFlags
	Model      string        `help:"Model to load: an ID, a name or a folder. Default: the bundled demo model." placeholder:"DIR_OR_NAME"`
	Host       string        `help:"Address to listen on; 0.0.0.0 opens it to the network." default:"127.0.0.1"`
	Port       int           `help:"Port to listen on; 0: any free one." default:"11811"`
	APIKey     string        `name:"api-key" env:"HEADROOM_API_KEY" help:"Key that requests must carry." placeholder:"KEY"`
	IdleUnload time.Duration `aliases:"rest-after" help:"Unload an idle model after this time; the next request loads it again. Default: idleUnloadMinutes in the settings, or never." placeholder:"DURATION"`
	InProcess  bool          `help:"Run the model in the server's process; a crash then ends the server too."`
	AllowHost  []string      `help:"Additional host names by which requests may address this machine." placeholder:"NAME" sep:","`
}

// Run listens before it loads the model, so that a port in use is reported immediately. It serves
// while the model loads.
func (c *Serve) Run(ctx context.Context, t *terminal) error {
	o := c.ModelFlags.ServiceOptions(ServiceUse{InProcess: c.InProcess, IdleUnload: c.IdleUnload})
	o.Listen, o.Port, o.APIKey, o.AllowHosts = c.Host, c.Port, c.APIKey, c.AllowHost
	o.ReadOnly, o.Logs = c.readOnlySettings(), t.logs
	s, err := service.New(o)
	if err != nil {
		return err
	}
	defer s.Close()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	if err := load(ctx, s.Host, c.Model, t.err); err != nil {
		if ctx.Err() != nil {
			return <-served
		}
		return err
	}
	c.greet(t.out, s.Host.State(), s.Address, s.Token)
	return <-served
}

// readOnlySettings returns the names of the settings that this command ignores or that its flags
// override.
func (c *Serve) readOnlySettings() []string {
	readOnly := []string{"port", "modelFolders", "launch", "defaultModel", "logLevel",
		"notifications"}
	if c.APIKey != "" {
		readOnly = append(readOnly, "apiKey")
	}
	if c.IdleUnload > 0 {
		readOnly = append(readOnly, "idleUnloadMinutes")
	}
	return readOnly
}

// greet prints the addresses.
func (c *Serve) greet(out io.Writer, s host.State, address, token string) {
	body, _ := json.Marshal(map[string]any{
		"model":    s.Engine.Model,
		"messages": []map[string]string{{"role": "user", "content": "What is a KV cache?"}},
	})
	key := ""
	if c.APIKey != "" {
		key = " -H " + quote("Authorization: Bearer "+c.APIKey)
	}
	fmt.Fprintf(out, "Headroom %s: %s is ready (%s, %d tokens of context)\n", version.Version,
		oneLine(s.Engine.Model), s.Engine.Device, s.Engine.ContextTokens)
	fmt.Fprintf(out, "endpoint: http://%s/v1\n", address)
	fmt.Fprintf(out, "web UI: http://%s/#token=%s\n", address, token)
	fmt.Fprintf(out,
		"try: curl http://%s/v1/chat/completions -H 'Content-Type: application/json'%s -d %s\n",
		address, key, quote(string(body)))
}

// quote returns s as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
