// Package nv is a Metal device on NVIDIA's GPUs, for development alone: it shows the kernels on a
// real GPU, with real concurrency and at a real GPU's speed, where no Mac is at hand. The very same
// .metal text is compiled by clang to PTX; CUDA's driver, loaded at run time, runs it. Neither
// building nor testing needs CUDA's toolkit.
//
//	simdgroup             warp of 32 threads          threadgroup memory   shared memory
//	function constants    a compilation each          constant memory      global memory that nobody writes
//	dispatches between    up to Options.Streams       barrier              events that the streams wait for
//	two barriers          streams
//
// Memory: a PC's GPU has its own. NewBuffer up to 1 MiB is mirrored: what a commit reads is copied
// before it, what it writes after it. Larger ones, and Allocate, are CUDA's managed memory, whose
// pages move to whoever touches them. WrapBuffer is for weights: copied to the GPU when first used,
// and never again.
//
// A machine with a GPU may have no clang, and one with clang no GPU. So compiled kernels are files
// in a folder that can travel (compile.go), and Options.CompileOnly makes a device that compiles
// what it is asked for and computes nothing.
//
// Source: NVIDIA, "CUDA Driver API" (https://docs.nvidia.com/cuda/cuda-driver-api/); LLVM, "User
// Guide for NVPTX Back-end" (https://llvm.org/docs/NVPTXUsage.html).
package nv

import (
	"errors"
	"io"
	"os"
)

// Options are the device's settings; the zero value is the first GPU with everything on.
type Options struct {
	// Streams is how many dispatches between two barriers may run at the same time; 0 means 4.
	Streams int
	// CacheDir keeps compiled kernels, by hash of everything that goes into them; "" means
	// headroom/metal-nv in the user's cache.
	CacheDir string
	// CompileOnly makes a device without a GPU: pipelines are compiled into CacheDir, dispatches do
	// nothing.
	CompileOnly bool
	// Trace is where Close writes what each kernel took; nil: nowhere. Dispatches are measured one
	// after another: work is slower then.
	Trace io.Writer
}

// ErrUnavailable is wrapped by Open's error where the device cannot be had on this machine: tests
// skip themselves then.
var ErrUnavailable = errors.New("there is no NVIDIA GPU to run Metal kernels on")

// FromEnvironment is the options that tests and --device nv use: HEADROOM_NV_CACHE is CacheDir,
// HEADROOM_NV=compile asks for CompileOnly, and HEADROOM_NV=trace for a Trace on standard error.
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
