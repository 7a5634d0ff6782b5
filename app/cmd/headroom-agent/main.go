// Headroom-agent is Headroom in the menu bar: the endpoint and control API of `headroom serve`, an
// icon with a menu, and a window that opens on demand. On a Mac it is the bundle's main program.
//
//	main.go        flags, and the order of starting and stopping
//	agent.go       the actions of the menu, and the state that is saved for the next start
//	instance.go    one agent per user: a second start opens the window of the first
//	native.go      the menu as systray draws it
//	rows.go        the conversations and downloads that the menu lists
//	menubar_*.go   what only a Mac's menu bar needs
//	clipboard_*.go copying text
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/getlantern/systray"

	"headroom/app/logs"
	"headroom/app/version"
	"headroom/app/worker"
	"headroom/engine/problem"
)

// flags are the command line.
type flags struct {
	Open     *bool            `help:"Open the window at start. Default: only until the welcome has been closed." negatable:""`
	Start    *bool            `help:"Load the model that ran last. Default: only if one ran at the last quit; the first start loads the demo model." negatable:""`
	Port     *int             `help:"Port of the endpoint; 0: any free one. Default: the setting, or 11811." placeholder:"PORT"`
	LogLevel *slog.Level      `help:"Lowest level to log: debug, info, warn or error. Default: the setting, or info."`
	Version  kong.VersionFlag `help:"Print the version."`

	logs *logs.Logs
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == worker.Argument {
		os.Exit(worker.Main())
	}
	var f flags
	kong.Parse(&f, kong.Name("headroom-agent"), kong.Description("Headroom in the menu bar."),
		kong.Vars{"version": "headroom-agent " + version.Version})
	f.logs = logs.New(slog.LevelInfo)
	slog.SetDefault(slog.New(f.logs.Handler(os.Stderr, false)))
	if err := run(f); err != nil {
		fmt.Fprintln(os.Stderr, "headroom-agent:", err)
		os.Exit(1)
	}
}

func run(f flags) error {
	if err := checkDisplay(); err != nil {
		return err
	}
	a, err := newAgent(f)
	if a == nil || err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C kills the program
		systray.Quit()
	})
	onReopen(a.show)
	// On a Mac, Run never returns, so close does the cleanup.
	systray.Run(func() { a.begin(f) }, a.close)
	return nil
}

// checkDisplay returns a Problem if there is no display. GTK would exit the program instead.
func checkDisplay() error {
	if runtime.GOOS == "darwin" || os.Getenv("DISPLAY") != "" ||
		os.Getenv("WAYLAND_DISPLAY") != "" {
		return nil
	}
	return problem.New(problem.NotRunning, "There is no display for the tray",
		"neither DISPLAY nor WAYLAND_DISPLAY is set",
		"Run headroom serve, which needs no display.")
}
