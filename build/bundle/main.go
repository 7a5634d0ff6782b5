// Bundle puts Headroom.app together from programs that are built already, and checks a bundle, on
// any system.
//
//	go run ./build/bundle assemble -programs DIR -icons DIR -version 0.1.0 -build 335 bin/Headroom.app
//	go run ./build/bundle check bin/Headroom.app
//	go run ./build/bundle minimum        the oldest macOS that it is for
//
// The scripts in build/darwin call it. What lies where is data (layout.go); what the check knows is
// what went wrong elsewhere and shows only on somebody's Mac: a key misspelt, a version that the
// system cannot read, an icon without its small sizes, a program for a newer macOS than the bundle
// promises, a library from the builder's own machine.
//
// check prints one line per problem and exits 1 if there is one.
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
	usage := errors.New("say assemble or check, and the bundle's path")
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
		flags.StringVar(&s.programs, "programs", "", "folder of the three programs")
		flags.StringVar(&s.icons, "icons", "", "folder of Headroom.icns, which build/icon draws")
		flags.StringVar(&s.version, "version", "", "three numbers, as 0.1.0")
		flags.StringVar(&s.build, "build", "", "a number that grows with each version")
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
		fmt.Printf("%s: layout, property lists, icons and programs are right\n", app)
		return nil
	}
	return usage
}
