package service

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	psnet "github.com/shirou/gopsutil/v3/net"
	"github.com/shirou/gopsutil/v3/process"

	"headroom/engine/problem"
)

// listenProblem returns the Problem for an error of net.Listen. It names the program that listens
// on the port, if the system reports it. choose says how to choose another port.
func listenProblem(err error, host string, port int, choose portAdvice) error {
	taken := fmt.Sprintf("Port %d is taken", port)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		owner, pid := portOwner(port)
		fix := choose.another
		if owner == "" {
			return problem.New(problem.PortTaken, taken, "another program listens there", fix)
		}
		if strings.HasPrefix(owner, "headroom") {
			fix = fmt.Sprintf("Headroom is already running: use that one, end it with "+
				"`kill %d`, or %s", pid, choose.orElse)
		}
		return problem.New(problem.PortTaken, taken,
			fmt.Sprintf("%s (process %d) listens there", owner, pid), fix)
	case errors.Is(err, syscall.EACCES):
		return problem.Wrap(problem.PortTaken, err,
			fmt.Sprintf("Headroom may not listen on port %d", port),
			"Ports below 1024 need root: "+choose.orElse)
	}
	return problem.Wrap(problem.PortTaken, err,
		fmt.Sprintf("Headroom cannot listen on %s, port %d", host, port),
		choose.check)
}

// portAdvice says what to do about a port that cannot be opened.
type portAdvice struct {
	another string // when another program has it
	orElse  string // the same, as the end of a sentence
	check   string // when there is another reason
}

var (
	ownPort = portAdvice{"Choose another port with --port, or --port 0 for any free one.",
		"choose another port with --port.", "Check --host and --port."}
	// Ollama's clients look at one port only.
	ollamaPort = portAdvice{"End that program, or do without this port: --ollama-port=false, or " +
		"ollamaPort in the settings.", "do without this port: --ollama-port=false, or ollamaPort " +
		"in the settings.", "Check --host, or do without this port: --ollama-port=false, or " +
		"ollamaPort in the settings."}
	machinesPort = portAdvice{"Choose another port with --machines-port, or machinesPort in the " +
		"settings.", "choose another port with --machines-port, or machinesPort in the settings.",
		"Check --machines-host and --machines-port."}
)

// portOwner returns the program that listens on a port, "" if the system does not report it to this
// user.
func portOwner(port int) (name string, pid int32) {
	connections, err := psnet.Connections("tcp")
	if err != nil {
		return "", 0
	}
	for _, c := range connections {
		if c.Status != "LISTEN" || int(c.Laddr.Port) != port || c.Pid == 0 {
			continue
		}
		p, err := process.NewProcess(c.Pid)
		if err != nil {
			return "", 0
		}
		if name, err = p.Name(); err == nil {
			return name, c.Pid
		}
	}
	return "", 0
}
