// Headroom is the server and the command-line tools. It has no menu-bar icon and no window, and
// needs no display.
package main

import (
	"os"

	"headroom/app/commands"
)

func main() { os.Exit(commands.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
