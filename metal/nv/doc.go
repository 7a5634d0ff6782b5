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
// The device is a development tool. It is compiled only on Linux with the build tag nv, which no
// released program has: `go test -tags nv ./metal/nv`.
//
// Source: NVIDIA, "CUDA Driver API" (https://docs.nvidia.com/cuda/cuda-driver-api/); LLVM, "User
// Guide for NVPTX Back-end" (https://llvm.org/docs/NVPTXUsage.html).
package nv
