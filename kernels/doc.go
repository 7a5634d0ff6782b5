// Package kernels is the vocabulary of everything that computes: element types, device memory,
// tensors, weights as the checkpoint packs them, and the two small interfaces, Device and Op,
// between a model and the machine that runs it.
//
// Below it lie the devices (kernels/cpu, metal), above it what dispatches to a GPU (kernels/gpu)
// and one package per family of operators (kernels/matmul, kernels/norm, ...). An operator is a
// plain struct naming its inputs and outputs. It carries one implementation per device and one
// scalar Go reference that specifies it; its cases serve the correctness test and the benchmark
// alike. Nothing above this package knows which device runs.
//
// Shape letters, used in comments everywhere:
//
//	M   rows of a batch: tokens of all sequences, flattened       H, KVH  query heads, key/value heads
//	N,K output and input width of a weight matrix [N, K]          D       head dimension
//	E   experts                                                   Hk,Hv,Dk,Dv  GatedDeltaNet key/value heads and dims
//	V   vocabulary                                                P       tokens per KV page
//
// The exactness rule: the bits of a row of an output depend on that row's inputs and its absolute
// position only; never on M, on how a prompt was cut into chunks, on what else is in the batch, or
// on the number of threads. Every operator keeps it by fixing the order of each reduction per
// output element.
package kernels
