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

	dialogs, frame := &Dialogs{}, newFrame(agent)
	var started, closing atomic.Bool
	err = wails.Run(&options.App{
		Title: "Headroom",
		Width: frame.look.Width, Height: frame.look.Height,
		MinWidth: window.MinWidth, MinHeight: window.MinHeight,
		// Before its first paint the web view would be white. A Mac's window is shown when the page
		// has its style sheets; WebKitGTK's view has the colour that the page had last. There Wails
		// shows the window before it hides it.
		StartHidden: goruntime.GOOS == "darwin", BackgroundColour: frame.colour(),
		AssetServer: &assetserver.Options{Assets: frontend.FS(), Handler: agent.Handler()},
		Bind:        []any{dialogs, frame, &Dock{}},
		Menu:        applicationMenu(frame.send),
		OnStartup: func(ctx context.Context) {
			dialogs.context, frame.context = ctx, ctx
			started.Store(true)
			go window.Listen(input, func(place string) { frame.show(place) }, func() {
				if !closing.Load() {
					runtime.Quit(ctx)
				}
			})
		},
		OnDomReady: func(context.Context) { frame.open() },
		// Closing the input tells the agent at once that the window is gone. Return false, since
		// true would keep the window open even after SIGTERM.
		OnBeforeClose: func(context.Context) bool {
			closing.Store(true)
			frame.save()
			input.Close()
			return false
		},
		// The Wails runtime passes the paths of dropped files to the page. On a Mac that requires
		// DisableWebViewDrop; with it, WebKitGTK delivers no drops at all.
		DragAndDrop: &options.DragAndDrop{EnableFileDrop: true,
			DisableWebViewDrop: goruntime.GOOS == "darwin"},
		// The sidebar is translucent: the page has no background there (tokens.css), the web view
		// draws none, and behind it is the window's visual effect view.
		Mac: &mac.Options{TitleBar: mac.TitleBarHiddenInset(), WebviewIsTransparent: true,
			WindowIsTranslucent: true, About: &mac.AboutInfo{Title: "Headroom",
				Message: version.Version, Icon: icon}},
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
		runtime.OpenDialogOptions{Title: "Choose a folder", CanCreateDirectories: false})
}

// ChooseSamples asks the user for a JSONL file and returns its path, or "" if the user cancels.
func (d *Dialogs) ChooseSamples() (string, error) {
	return runtime.OpenFileDialog(d.context, runtime.OpenDialogOptions{Title: "Choose samples",
		Filters: []runtime.FileFilter{{DisplayName: "JSON Lines", Pattern: "*.jsonl"}}})
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
