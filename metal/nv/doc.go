// Package nv implements package metal on an NVIDIA GPU. clang compiles the same .metal text to PTX,
// and the CUDA driver, loaded at run time, runs it. Neither building nor testing needs the CUDA
// toolkit. The package is a development tool: where no Mac is at hand, it runs the kernels on a
// real GPU, with real concurrency and speed. It is compiled only on Linux, with the build tag nv,
// and is part of no released program:
//
//	go test -tags nv ./metal/nv
//
// Metal's terms map to CUDA's as follows:
//
//	simdgroup             warp of 32 threads
//	threadgroup memory    shared memory
//	constant memory       read-only global memory
//	function constants    a compilation for each set of values
//	concurrent dispatch   up to Options.Streams streams
//	barrier               events that the streams wait for
//	command buffer        a graph, if its kernels come again (graph.go)
//
// The GPU has separate memory. NewBuffer mirrors buffers up to 1 MiB, and Allocate up to 16 KiB:
// each commit starts by copying the bytes it uses to the GPU and ends by copying the bytes it wrote
// to the host. Larger buffers are managed memory, whose pages migrate between host and GPU.
// WrapBuffer is for weights: it copies them to the GPU once, on first use.
//
// A machine with a GPU may have no clang, and a machine with clang no GPU. Compiled kernels are
// therefore files in a folder that can be copied (compile.go), and Options.CompileOnly makes a
// device that compiles kernels and computes nothing.
//
// Source: NVIDIA, "CUDA Driver API" (https://docs.nvidia.com/cuda/cuda-driver-api/); LLVM, "User
// Guide for NVPTX Back-end" (https://llvm.org/docs/NVPTXUsage.html).
package nv
