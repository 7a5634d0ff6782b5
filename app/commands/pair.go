package commands

// `headroom pair` pairs this machine with another Headroom. With an address, the other machine's
// engines can be used from then on. Without one, a running server of this user shows a code, which
// lets another machine use this one.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"headroom/app/control"
	"headroom/app/pairing"
	"headroom/app/service"
	"headroom/engine/problem"
)

// Pair is `headroom pair`.
type Pair struct {
	Address string `arg:"" optional:"" help:"Address of the machine that shows a code: studio.local, or 1234-5678@studio.local. Without it, this machine shows a code."`
	Code    string `help:"Code that the other machine shows. Default: asked for." placeholder:"CODE"`
	Both    bool   `help:"Let each machine use the other one. Give it on both."`
	Share   *bool  `help:"Open this machine's port for paired machines from now on; =false: close it." placeholder:"BOOL"`
	List    bool   `help:"List the machines that may use this one, and those that were found on the local network."`
	JSON    bool   `name:"json" help:"With --list: print JSON, for scripts."`
}

// Validate rejects flags that do not go together. kong calls it.
func (c *Pair) Validate() error {
	switch {
	case c.List && (c.Address != "" || c.Code != "" || c.Both):
		return errors.New("--list does not pair: leave out the address, --code and --both")
	case c.JSON && !c.List:
		return errors.New("--json is for --list")
	case c.Code != "" && c.Address == "":
		return errors.New("--code is for the address of the machine that shows it")
	case c.Address != "" && c.Share != nil && !*c.Share && c.Both:
		return errors.New("--both needs this machine's port: leave out --share=false")
	}
	return nil
}

// joinTimeout is more than a pairing takes; see pairing.Join.
const joinTimeout = 20 * time.Second

// Run pairs.
func (c *Pair) Run(ctx context.Context, t *terminal) error {
	if c.Share != nil {
		if err := c.share(ctx, t); err != nil {
			return err
		}
		if !*c.Share && c.Address == "" && !c.List {
			return nil
		}
	}
	switch {
	case c.List:
		return c.list(ctx, t)
	case c.Address != "":
		return c.join(ctx, t)
	}
	return c.show(ctx, t)
}

// sharingServer returns a running server of this user, and its state. The error is a Problem.
func sharingServer(ctx context.Context) (found runningServer, state control.Sharing, err error) {
	asked := false
	eachServer(func(s runningServer) bool {
		var now control.Sharing
		if s.ask(ctx, askTimeout, http.MethodGet, "control/pairing", &now) == nil &&
			(!asked || now.Open) {
			found, state, asked = s, now, true
		}
		return !state.Open
	})
	if !asked {
		return found, state, problem.New(problem.NotRunning, "No Headroom is running here",
			"other machines can use only one that runs",
			"Start the app, or `headroom serve --share-with-machines`.")
	}
	return found, state, nil
}

// share opens or closes the port.
func (c *Pair) share(ctx context.Context, t *terminal) error {
	s, _, err := sharingServer(ctx)
	if err != nil {
		return err
	}
	var state control.Sharing
	if err := s.send(ctx, askTimeout, http.MethodPut, "control/pairing",
		control.SharingChange{On: c.Share}, &state); err != nil {
		return err
	}
	if state.Open {
		fmt.Fprintf(t.err, "Paired machines can use this one, at port %d.\n", state.Port)
	} else {
		fmt.Fprintln(t.err, "No other machine can use this one now. Those that were paired stay "+
			"paired.")
	}
	return nil
}

// show shows a code until another machine was paired, the code has expired, or ctx ends.
func (c *Pair) show(ctx context.Context, t *terminal) error {
	s, state, err := sharingServer(ctx)
	if err != nil {
		return err
	}
	if err := s.send(ctx, askTimeout, http.MethodPost, "control/pairing/code",
		control.CodeRequest{Both: c.Both}, &state); err != nil {
		return err
	}
	address := "ADDRESS"
	if len(state.Addresses) > 0 {
		address = state.Addresses[0]
	}
	both := ""
	if c.Both {
		both = " --both"
	}
	fmt.Fprintf(t.out, "Code: %s\n", state.Code.Code)
	fmt.Fprintf(t.err, "Type it on the other machine within two minutes: headroom pair %s%s\n",
		address, both)
	if len(state.Addresses) > 1 {
		fmt.Fprintf(t.err, "Other addresses of this one: %s\n",
			strings.Join(state.Addresses[1:], ", "))
	}
	return awaitPairing(ctx, s, state.Code, t)
}

// awaitPairing waits for the end of a code.
func awaitPairing(ctx context.Context, s runningServer, code control.PairingCode,
	t *terminal) error {
	const pause = 300 * time.Millisecond
	shown := code.ExpiresAtUnixMs
	for {
		var state control.Sharing
		select {
		case <-ctx.Done():
			hide, stop := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
			defer stop()
			_ = s.ask(hide, askTimeout, http.MethodDelete, "control/pairing/code", nil)
			return ctx.Err()
		case <-time.After(pause):
		}
		if err := s.ask(ctx, askTimeout, http.MethodGet, "control/pairing", &state); err != nil {
			if ctx.Err() != nil {
				continue
			}
			return err
		}
		now := state.Code
		switch {
		case now.ExpiresAtUnixMs != shown:
			return problem.New(problem.Changed, "The code was replaced by another one", "", "")
		case now.Phase == pairing.Open && now.Tries != code.Tries:
			code = now
			fmt.Fprintf(t.err, "A machine has tried the code; %d tries are left.\n", now.Tries)
		case now.Phase == pairing.Open:
		case now.Phase == pairing.Paired:
			fmt.Fprintf(t.out, "Paired: %s can use this machine. Its key is in `headroom keys`; "+
				"removing it ends that.\n", oneLine(now.Machine))
			return nil
		case now.Phase == pairing.Expired:
			return problem.New(problem.Timeout, "The code has expired", "nobody has typed it",
				"Show a new one: headroom pair")
		default:
			return problem.New(problem.Unauthorized, "The code is void",
				"it was tried with wrong codes, or withdrawn", "Show a new one: headroom pair")
		}
	}
}

// join pairs with the machine that shows a code.
func (c *Pair) join(ctx context.Context, t *terminal) error {
	address, code := c.Address, c.Code
	if before, after, ok := strings.Cut(address, "@"); ok {
		if code != "" {
			return problem.New(problem.BadRequest, "The code is given twice", "",
				"Give it as CODE@ADDRESS or with --code.")
		}
		code, address = before, after
	}
	if _, err := pairing.ParseAddress(address); err != nil {
		return err
	}
	if code == "" {
		fmt.Fprint(t.err, "Code that the other machine shows: ")
		line, err := bufio.NewReader(t.in).ReadString('\n')
		if err != nil && line == "" {
			return problem.New(problem.BadRequest, "The code is missing", "",
				"Give it as CODE@ADDRESS, with --code, or on standard input.")
		}
		code = line
	}
	if _, err := pairing.ParseCode(code); err != nil {
		return err
	}
	joined, err := c.joinBy(ctx, address, code)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "Paired: %s can be used from this machine.\n", oneLine(joined.Name))
	if joined.Both {
		fmt.Fprintf(t.out, "%s can use this machine, too.\n", oneLine(joined.Name))
	} else if c.Both {
		fmt.Fprintf(t.err, "%s did not ask to use this machine: give --both there, too.\n",
			oneLine(joined.Name))
	}
	return nil
}

// joinBy pairs by a running server, which has the port that --both needs, or without one.
func (c *Pair) joinBy(ctx context.Context, address, code string) (control.JoinedMachine, error) {
	s, _, err := sharingServer(ctx)
	if err == nil {
		var joined control.JoinedMachine
		err := s.send(ctx, joinTimeout, http.MethodPost, "control/pairing/join",
			control.JoinRequest{Address: address, Code: code, Both: c.Both}, &joined)
		return joined, err
	}
	if c.Both {
		return control.JoinedMachine{}, err
	}
	store, err := openKeys()
	if err != nil {
		return control.JoinedMachine{}, err
	}
	return service.Join(ctx, service.OpenSettings(), store, service.OpenVault(),
		service.JoinOptions{Address: address, Code: code})
}

// list prints who may use this machine, and who was found.
func (c *Pair) list(ctx context.Context, t *terminal) error {
	s, state, err := sharingServer(ctx)
	if err == nil && state.Find {
		// The first question starts a search.
		const search = 2 * time.Second
		select {
		case <-time.After(search):
			err = s.ask(ctx, askTimeout, http.MethodGet, "control/pairing", &state)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printJSON(t.out, state)
	}
	switch {
	case state.Open:
		fmt.Fprintf(t.out, "This machine is shared as %s, at port %d.\n", oneLine(state.Name),
			state.Port)
	case state.Problem != nil:
		fmt.Fprintf(t.out, "This machine is not shared: %s (%s).\n", state.Problem.Message,
			state.Problem.Why)
	default:
		fmt.Fprintln(t.out, "This machine is not shared. Share it: headroom pair --share")
	}
	for _, m := range state.Users {
		fmt.Fprintf(t.out, "may use this machine: %s (certificate %s)\n", oneLine(m.Name),
			m.Certificate)
	}
	switch {
	case state.FindProblem != nil:
		fmt.Fprintf(t.out, "%s: %s. %s\n", state.FindProblem.Message, state.FindProblem.Why,
			state.FindProblem.Fix)
	case !state.Find:
		fmt.Fprintln(t.out, "Finding machines on the local network is off: switch it on in "+
			"Settings, Machines, or with --find-machines.")
	case len(state.Found) == 0:
		fmt.Fprintln(t.out, "No machine was found on the local network.")
	}
	for _, m := range state.Found {
		fmt.Fprintf(t.out, "found: %s, headroom pair %s\n", oneLine(m.Name), m.Address)
	}
	return nil
}
