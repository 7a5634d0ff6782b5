// Package commands implements the headroom program: its subcommands, their flags and their output.
//
//	headroom serve    endpoint, control API and web UI      serve.go, app/service
//	headroom run      one prompt, answered in the terminal  run.go, answer.go, figures.go
//	headroom chat     a conversation in the terminal        chat.go, chatinput.go, chatcommands.go
//	headroom batch    a file of requests                    batch.go, app/batch
//	headroom models   models on this machine                models.go, transfer.go
//	headroom convert  a model in another packing            convert.go, engine/convert
//	headroom upload   a folder to the Hugging Face hub      upload.go, app/hub
//	headroom train    an adapter for a model, by mlx-lm     train.go, app/train
//	headroom cluster  one model over several machines       cluster.go, app/cluster
//	headroom cache    the prefix cache on disk              cache.go
//	headroom keys     API keys of the endpoint              keys.go
//	headroom pair     other machines that may use this one   pair.go, app/pairing
//	headroom agents   coding agents that use the endpoint   agents.go, app/agents
//	headroom stored   what is stored on this machine        stored.go
//	headroom parity   whether speed-ups change answers      parity.go, app/parity
//	headroom bench    speed and memory on this machine      bench*.go
//	headroom selftest the self-test of the GPU              selftest.go, reportfile.go
//	headroom worker   one model, started by the server      worker.go
//
// Results go to stdout; progress, logs, speed and errors go to stderr. Exit codes: 0, 1 for a
// Problem, 2 for wrong arguments, 130 after Ctrl-C.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"headroom/app/logs"
	"headroom/app/version"
	"headroom/engine/problem"
)

// CLI is the command line. Each command's fields are its flags.
type CLI struct {
	LogLevel logLevel         `help:"Lowest level to log: debug, info, warn or error. Default: info for serve, warn for the other commands." enum:",debug,info,warn,error" default:"" placeholder:"LEVEL"`
	LogJSON  bool             `help:"Log as JSON, one object per line."`
	Version  kong.VersionFlag `help:"Print the version."`

	Serve    Serve    `cmd:"" help:"Serve the OpenAI-compatible endpoint and the web UI."`
	Run      Run      `cmd:"" help:"Answer one prompt in the terminal."`
	Chat     Chat     `cmd:"" help:"Have a conversation in the terminal."`
	Batch    Batch    `cmd:"" help:"Answer a file of requests."`
	Models   Models   `cmd:"" help:"List, import, download and delete models."`
	Fuse     Fuse     `cmd:"" help:"Write a model with an adapter fused into its weights."`
	Convert  Convert  `cmd:"" help:"Convert a model: pack, unpack, or MLX's format for a Hugging Face original."`
	Upload   Upload   `cmd:"" help:"Upload a model's folder to the Hugging Face hub."`
	Train    Train    `cmd:"" help:"Fine-tune a model with mlx-lm (LoRA, DoRA or full) in a process of its own."`
	Cluster  Cluster  `cmd:"" help:"Run one model over several machines with MLX's distributed engine."`
	Cache    Cache    `cmd:"" help:"Show and clear the prefix cache on disk."`
	Keys     Keys     `cmd:"" help:"List, make and remove API keys of the endpoint."`
	Machines Machines `cmd:"" help:"List, add and check other machines, whose engines answer requests too."`
	Pair     Pair     `cmd:"" help:"Pair this machine with another Headroom, by a code that one of them shows."`
	Agents   Agents   `cmd:"" help:"Set up coding agents, such as Claude Code and Codex, and undo it."`
	Stored   Stored   `cmd:"" help:"Show what is stored on this computer, and delete everything."`
	Parity   Parity   `cmd:"" help:"Check that what makes a model faster changes none of its answers."`
	Bench    Bench    `cmd:"" help:"Measure speed and memory on this machine."`

	Selftest Selftest `cmd:"" help:"Test this machine's GPU and write a report for bug reports."`
	Worker   Worker   `cmd:"" hidden:"" help:"Run one model for the server that started this; see app/worker."`
}

// logLevel is a level's name. In capitals it is the same, and "warning" is "warn", as in Python.
type logLevel string

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *logLevel) UnmarshalText(text []byte) error {
	if *l = logLevel(strings.ToLower(string(text))); *l == "warning" {
		*l = "warn"
	}
	return nil
}

// terminal has the streams that a command reads and writes.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	logs     *logs.Logs
}

// exitCode is an error without a message: the command has printed it already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

const (
	exitProblem     exitCode = 1
	exitUsage       exitCode = 2
	exitInterrupted exitCode = 130 // 128 + SIGINT, as shells count
)

// Main runs the program and returns its exit code.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	var cli CLI
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("headroom"),
		kong.Description("Runs language models on this machine."),
		variables(),
		kong.Writers(out, errOut),
		kong.Exit(func(code int) { exited = code; panic(exitCode(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic("commands: Main: the command structs are wrong: " + err.Error())
	}
	parsed, err := parse(parser, joinValues(parser, args))
	if exited >= 0 {
		return exited // --help or --version have been printed
	}
	if err != nil {
		fmt.Fprintf(errOut, "headroom: %s\nTry: %s --help\n", usage(err), nearest(err))
		return int(exitUsage)
	}
	kept := cli.startLog(errOut, parsed.Command())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C kills the program.
	context.AfterFunc(ctx, stop)
	parsed.BindTo(ctx, (*context.Context)(nil))
	return report(parsed.Run(&terminal{in, out, errOut, kept}), errOut)
}

// variables returns the values of the variables in the help of the flags.
func variables() kong.Vars {
	return kong.Vars{"version": "headroom " + version.Version, "shapes": shapeNames()}
}

// parse parses the arguments. It recovers the panic of kong.Exit.
func parse(parser *kong.Kong, args []string) (c *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			code, ok := r.(exitCode)
			if !ok {
				panic(r)
			}
			err = code
		}
	}()
	return parser.Parse(args)
}

// report prints an error and returns the exit code.
func report(err error, out io.Writer) int {
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, context.Canceled):
		return int(exitInterrupted)
	}
	p := problem.From(err)
	fmt.Fprintf(out, "headroom: %s\n", printable(p.Message))
	if p.Why != "" {
		fmt.Fprintf(out, "  why: %s\n", printable(p.Why))
	}
	if p.Fix != "" {
		fmt.Fprintf(out, "  fix: %s\n", printable(p.Fix))
	}
	return int(exitProblem)
}

func (c *CLI) startLog(out io.Writer, command string) *logs.Logs {
	level := slog.LevelWarn
	if command == "serve" {
		level = slog.LevelInfo
	}
	if c.LogLevel != "" {
		_ = level.UnmarshalText([]byte(c.LogLevel)) // one of the enum
	}
	kept := logs.New(level)
	slog.SetDefault(slog.New(kept.Handler(out, c.LogJSON)))
	return kept
}

// isTerminal reports whether the stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
