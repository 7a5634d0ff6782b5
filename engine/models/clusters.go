package models

// The clusters of a head that scores a part of the vocabulary: that of the assistants of Gemma 4
// E2B and E4B. A row of the vocabulary belongs to one of many clusters of the same size. The output
// is compared with a centroid of each, and the tokens of all but the best are left out.
//
// The head computes the logits of all tokens, and the host then removes those that are left out. To
// compute only those that count, the host would have to choose the clusters before the head runs:
// a wait for the device costs about as much as the narrow head.

import (
	"fmt"
	"math"
	"slices"

	"headroom/engine/checkpoint"
	"headroom/kernels"
)

var minusInf = float32(math.Inf(-1))

// clusters tells which tokens count.
type clusters struct {
	centroids *kernels.Weight // [E, H]
	clusterOf []int32         // of each token
	top       int             // how many count

	scores kernels.Tensor // [M, E], of the last step
	best   []int32        // memory of mask
	chosen []bool         // by cluster; memory of mask
}

// checkClusters returns an error unless a vocabulary can have these clusters.
func checkClusters(vocab, centroids, top int) error {
	if centroids < 1 || vocab%centroids != 0 {
		return fmt.Errorf("num_centroids is %d, expected a divisor of the vocab_size of %d",
			centroids, vocab)
	}
	return atMost("centroid_intermediate_top_k", top, "num_centroids", centroids)
}

// loadClusters loads the clusters of an assistant.
func loadClusters(w *checkpoint.Weights, c *assistantConfig) *clusters {
	s := w.At("masked_embedding.")
	k := &clusters{top: c.TopCentroids, chosen: make([]bool, c.Centroids),
		best:      make([]int32, 0, c.TopCentroids+1),
		centroids: s.Linear("centroids", c.Centroids, c.HiddenSize)}
	// The tokens of each cluster follow each other.
	order := s.Indices("token_ordering", c.VocabSize, c.VocabSize)
	k.clusterOf = make([]int32, len(order))
	for i, token := range order {
		k.clusterOf[token] = int32(i / (c.VocabSize / c.Centroids))
	}
	return k
}

// mask sets the logits of the tokens that do not count to minus infinity. scores are those of the
// clusters.
func (k *clusters) mask(logits, scores []float32) {
	k.best = k.best[:0]
	for i, score := range scores {
		at := len(k.best)
		for at > 0 && score > scores[k.best[at-1]] {
			at--
		}
		if at < k.top {
			k.best = slices.Insert(k.best, at, int32(i))
			k.best = k.best[:min(len(k.best), k.top)]
		}
	}
	clear(k.chosen)
	for _, i := range k.best {
		k.chosen[i] = true
	}
	for token, cluster := range k.clusterOf {
		if !k.chosen[cluster] {
			logits[token] = minusInf
		}
	}
}
