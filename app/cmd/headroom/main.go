// Headroom is the server and command-line program. It has no tray and no window, and needs no
// display.
package main

import (
	"os"

	"headroom/app/commands"
)

func main() { os.Exit(commands.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
