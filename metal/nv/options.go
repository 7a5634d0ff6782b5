//go:build nv && linux

package nv

import (
	"errors"
	"io"
	"os"
)

// Options are the device's settings. The zero value is the first GPU with concurrent dispatches.
type Options struct {
	// Streams is the number of dispatches between two barriers that may run at the same time; 0
	// means 4.
	Streams int
	// CacheDir is the folder of compiled kernels, named by a hash of their inputs; "" means
	// headroom/metal-nv in the user's cache folder.
	CacheDir string
	// CompileOnly makes a device without a GPU: pipelines are compiled into CacheDir, dispatches do
	// nothing.
	CompileOnly bool
	// Trace, unless nil, makes Close write the times of each kernel to it, by the size of its grid.
	// Dispatches then run one after another, which is slower.
	Trace io.Writer
}

// ErrUnavailable is wrapped by the errors of Open on a machine that cannot run the device. Tests
// then skip themselves.
var ErrUnavailable = errors.New("there is no NVIDIA GPU to run Metal kernels on")

// FromEnvironment returns the options that tests and --device nv use: HEADROOM_NV_CACHE is
// CacheDir, HEADROOM_NV=compile asks for CompileOnly, and HEADROOM_NV=trace for a Trace on standard
// error.
func FromEnvironment() Options {
	o := Options{CacheDir: os.Getenv("HEADROOM_NV_CACHE")}
	switch os.Getenv("HEADROOM_NV") {
	case "compile":
		o.CompileOnly = true
	case "trace":
		o.Trace = os.Stderr
	}
	return o
}
