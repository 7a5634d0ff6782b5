// Bundle assembles Headroom.app from built programs, and checks a bundle, on any system.
//
//	go run ./build/bundle assemble -programs DIR -icons DIR -version 0.1.0 -build 335 APP
//	go run ./build/bundle check APP
//	go run ./build/bundle minimum        prints the oldest macOS that the bundle supports
//
// The scripts in build/darwin call it. The layout is a table (layout.go). check finds mistakes that
// otherwise show only on a user's Mac: a misspelt key, a version that macOS cannot parse, an icon
// without its small sizes, a program for a newer macOS than the bundle promises, a library from the
// builder's machine. It prints one line per problem and exits 1 if there is one.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	usage := errors.New("usage: bundle assemble|check [FLAGS] APP, or bundle minimum")
	if len(args) == 0 {
		return usage
	}
	if args[0] == "minimum" {
		fmt.Println(minimumSystem)
		return nil
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	s := sources{repository: "."}
	if args[0] == "assemble" {
		flags.StringVar(&s.programs, "programs", "", "folder with the three programs")
		flags.StringVar(&s.icons, "icons", "", "folder with Headroom.icns, which build/icon draws")
		flags.StringVar(&s.version, "version", "", "version of three numbers, such as 0.1.0")
		flags.StringVar(&s.build, "build", "", "build number, which grows with each version")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return usage
	}
	app := flags.Arg(0)
	switch args[0] {
	case "assemble":
		return assemble(app, s)
	case "check":
		problems, err := check(os.DirFS(app))
		if err != nil {
			return err
		}
		for _, p := range problems {
			fmt.Printf("%s: %s\n", app, p)
		}
		if len(problems) > 0 {
			return fmt.Errorf("%d problems in %s", len(problems), app)
		}
		fmt.Printf("%s: layout, property lists, icons and programs are valid\n", app)
		return nil
	}
	return usage
}
