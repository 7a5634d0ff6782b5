// Package peer times Headroom's Metal kernels beside those of MLX, whose text goes through the same
// translation to the same NVIDIA GPU (package metal/nv) in the same run. MLX's kernels are fast on
// Macs, so being faster here, for reasons that hold on both GPUs, is the best evidence that there
// is without a Mac. metal/PEERS.md has the table and says how to make it.
//
// MLX's sources (https://github.com/ml-explore/mlx, MIT) are read from a folder and are no part of
// this repository. Only tests import the package.
package peer
