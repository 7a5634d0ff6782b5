// The window program (headroom-window): the web UI in a native window. The agent starts it, and
// ends it by ending its input; app/window is what both agree on. It knows nothing of models: the
// pages come out of this binary, and what they ask for goes to the agent.
//
// It lies at the root because Wails builds in the folder of wails.json. Build it with the Makefile:
// without the tags desktop and production, Wails compiles and shows nothing.
package main

import (
	"context"
	_ "embed"
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
		// Somebody kept the window in the Dock and clicked it: the agent opens it, and is started
		// if it does not run.
		return exec.Command("/usr/bin/open", bundle, "--args", "--open").Run()
	}
	if err != nil {
		return err
	}
	if !frontend.Built() {
		return fmt.Errorf("this program was built without its pages. Build it with: make build")
	}
	// Non-blocking, so that closing it ends a read at once.
	_ = syscall.SetNonblock(0, true)
	input := os.NewFile(0, "agent")

	dialogs := &Dialogs{}
	var started, closing atomic.Bool
	err = wails.Run(&options.App{
		Title: "Headroom",
		Width: 1100, Height: 720, MinWidth: 760, MinHeight: 560,
		AssetServer: &assetserver.Options{Assets: frontend.FS(), Handler: agent.Handler()},
		Bind:        []any{dialogs},
		OnStartup: func(ctx context.Context) {
			dialogs.context = ctx
			started.Store(true)
			go window.Listen(input, func() { raise(ctx) }, func() {
				if !closing.Load() {
					runtime.Quit(ctx)
				}
			})
		},
		// The agent learns at once that "show" now needs a new window. Never true: that would
		// survive SIGTERM.
		OnBeforeClose: func(context.Context) bool {
			closing.Store(true)
			input.Close()
			return false
		},
		// Paths of dropped files reach the page through the Wails runtime. WebKitGTK delivers no
		// drops at all when the page's own are disabled; WebKit on a Mac needs it.
		DragAndDrop: &options.DragAndDrop{EnableFileDrop: true,
			DisableWebViewDrop: goruntime.GOOS == "darwin"},
		Mac: &mac.Options{About: &mac.AboutInfo{Title: "Headroom", Message: version.Version, Icon: icon}},
		// Software rendering: on many systems WebKitGTK's way through the GPU shows an empty
		// window.
		Linux: &linux.Options{Icon: icon, ProgramName: "headroom",
			WebviewGpuPolicy: linux.WebviewGpuPolicyNever},
	})
	if err == nil && !started.Load() {
		err =
			fmt.Errorf(
				"built without the tags desktop and production, so there is no window in it. " +
					"Build it with: make build")
	}
	return err
}

// Dialogs are the system's own, which a page cannot show by itself: it calls window.go.main.Dialogs
// (frontend/src/lib/host.ts).
type Dialogs struct{ context context.Context }

// ChooseFolder returns the path of a folder that somebody chooses, "" when they do not.
func (d *Dialogs) ChooseFolder() (string, error) {
	return runtime.OpenDirectoryDialog(d.context,
		runtime.OpenDialogOptions{Title: "Import a model", CanCreateDirectories: false})
}

// SaveText writes a text where somebody says and returns the path, "" when they do not. WebKit
// downloads nothing in a window of ours.
func (d *Dialogs) SaveText(name, text string) (string, error) {
	path, err := runtime.SaveFileDialog(d.context,
		runtime.SaveDialogOptions{Title: "Save as", DefaultFilename: name,
			CanCreateDirectories: true})
	if err != nil || path == "" {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// raise brings the window to the front, from wherever it is.
func raise(ctx context.Context) {
	runtime.WindowShow(ctx)
	runtime.WindowUnminimise(ctx) // on Linux this presents it
}
