// Headroom-window shows the web UI in a native window. The agent starts it, and ends it by closing
// its standard input; package app/window defines that protocol. The window knows nothing of models:
// its pages are embedded in the binary, and their requests go to the agent.
//
// The package is in the repository's root because Wails builds in the folder of wails.json. Build
// it with the Makefile: without the tags desktop and production Wails compiles but opens no window.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"sync/atomic"
	"syscall"

	"github.com/wailsapp/wails/v2"
	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/options/assetserver"
	"github.com/wailsapp/wails/v2/pkg/options/linux"
	"github.com/wailsapp/wails/v2/pkg/options/mac"
	"github.com/wailsapp/wails/v2/pkg/runtime"

	"headroom/app/version"
	"headroom/app/window"
	"headroom/frontend"
)

//go:embed build/appicon.png
var icon []byte

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "headroom-window:", err)
		os.Exit(1)
	}
}

func run() error {
	agent, err := window.AgentFrom(os.Getenv)
	if bundle := window.Bundle(); err != nil && bundle != "" {
		// The user opened the window from the Dock. Open the agent instead; it opens its window.
		return exec.Command("/usr/bin/open", bundle, "--args", "--open").Run()
	}
	if err != nil {
		return err
	}
	if !frontend.Built() {
		return errors.New("this program was built without the web UI. Build it with: make build")
	}
	// Non-blocking, so that closing it ends a pending read at once.
	_ = syscall.SetNonblock(0, true)
	input := os.NewFile(0, "agent")

	dialogs := &Dialogs{}
	var started, closing atomic.Bool
	err = wails.Run(&options.App{
		Title: "Headroom",
		Width: 1100, Height: 720, MinWidth: 760, MinHeight: 560,
		AssetServer: &assetserver.Options{Assets: frontend.FS(), Handler: agent.Handler()},
		Bind:        []any{dialogs, &Dock{}},
		OnStartup: func(ctx context.Context) {
			dialogs.context = ctx
			started.Store(true)
			go window.Listen(input, func() { raise(ctx) }, func() {
				if !closing.Load() {
					runtime.Quit(ctx)
				}
			})
		},
		// Closing the input tells the agent at once that the window is gone. Return false, since
		// true would keep the window open even after SIGTERM.
		OnBeforeClose: func(context.Context) bool {
			closing.Store(true)
			input.Close()
			return false
		},
		// The Wails runtime passes the paths of dropped files to the page. On a Mac that requires
		// DisableWebViewDrop; with it, WebKitGTK delivers no drops at all.
		DragAndDrop: &options.DragAndDrop{EnableFileDrop: true,
			DisableWebViewDrop: goruntime.GOOS == "darwin"},
		Mac: &mac.Options{About: &mac.AboutInfo{Title: "Headroom", Message: version.Version,
			Icon: icon}},
		// Software rendering, because WebKitGTK's GPU rendering shows an empty window on many
		// systems.
		Linux: &linux.Options{Icon: icon, ProgramName: "headroom",
			WebviewGpuPolicy: linux.WebviewGpuPolicyNever},
	})
	if err == nil && !started.Load() {
		err = errors.New("this program was built without the tags desktop and production, " +
			"so it cannot open a window. Build it with: make build")
	}
	return err
}

// Dialogs shows file dialogs of the system. Pages call it as window.go.main.Dialogs
// (frontend/src/lib/host.ts).
type Dialogs struct{ context context.Context }

// ChooseFolder asks the user for a folder and returns its path, or "" if the user cancels.
func (d *Dialogs) ChooseFolder() (string, error) {
	return runtime.OpenDirectoryDialog(d.context,
		runtime.OpenDialogOptions{Title: "Import a model", CanCreateDirectories: false})
}

// SaveText asks the user for a file, writes text to it and returns its path, or "" if the user
// cancels. Pages need it because WebKit does not download files in this window.
func (d *Dialogs) SaveText(name, text string) (string, error) {
	path, err := runtime.SaveFileDialog(d.context,
		runtime.SaveDialogOptions{Title: "Save as", DefaultFilename: name,
			CanCreateDirectories: true})
	if err != nil || path == "" {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// raise shows the window and brings it to the front, even when it is minimized or hidden.
func raise(ctx context.Context) {
	runtime.WindowShow(ctx)
	runtime.WindowUnminimise(ctx) // on Linux this raises the window
}
