// Headroom is the server and command-line program: no tray, no window, and nothing that needs them.
package main

import (
	"os"

	"headroom/app/commands"
)

func main() { os.Exit(commands.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
