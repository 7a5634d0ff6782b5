// Package kernels is the vocabulary of everything that computes: element types, device memory,
// tensors, weights as the checkpoint packs them, and the two interfaces between a model and the
// machine that runs it, Device and Op.
//
// The packages below it know the machines (kernels/cpu, metal). The packages above it compute:
// kernels/gpu encodes operators for Metal, and each family of operators is one package
// (kernels/matmul, kernels/norm, ...). An operator is a plain struct that names its inputs and
// outputs. It carries one implementation per device and a scalar Go reference that specifies it.
// Its cases serve both the correctness test and the benchmark. Code above the operators does not
// depend on the device that runs them.
//
// Comments in all kernel packages use these shape letters:
//
//	M       rows of a batch: the tokens of all sequences, flattened
//	N, K    output and input width of a weight matrix [N, K]
//	E       experts
//	V       vocabulary
//	H, KVH  query heads, key/value heads
//	D       head dimension
//	P       tokens per KV page
//	Hk, Hv  key heads and value heads of GatedDeltaNet
//	Dk, Dv  their dimensions
//
// The exactness rule: the bits of an output row depend only on the row's inputs and on its absolute
// position. They do not depend on M, on how a prompt was split into chunks, on the other rows of
// the batch or on the number of threads. Every operator keeps the rule by fixing the order of each
// reduction per output element. On a GPU there are two orders in matrix products and attention, one
// for prompts and one for generated tokens; Span.Prefill, an input of the row, selects it.
package kernels
