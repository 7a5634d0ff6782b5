package models

// Ministral 3 has the layers of Mistral, with a context that YaRN extends. So that attention stays
// sharp there, queries grow with the logarithm of their position, in steps of the original context.
//
// Sources: Hugging Face transformers, models/ministral3; mlx-lm, models/ministral3.py. Checkpoints:
// Devstral 2 and text-only Ministral 3, MLX conversions included. Others are inside mistral3.

import (
	"fmt"
	"math"

	"headroom/engine/checkpoint"
	"headroom/engine/ops"
	"headroom/kernels"
)

const (
	ministral3RopeTheta = 1e6 // the default of rope_theta
	// maxQuerySteps bounds the memory of the factors of queries. Real models have at most 64.
	maxQuerySteps = 1 << 12
)

func loadMinistral3(w *checkpoint.Weights) (Model, error) {
	c := newDecoderConfig()
	c.RMSNormEps, c.MaxPositionEmbeddings = 1e-5, 262144
	if err := c.readSliding(w); err != nil {
		return nil, err
	}
	scale, err := c.queryScale(w)
	if err != nil {
		return nil, err
	}
	return c.similar(w, ministral3RopeTheta, attentionOptions{queryScale: scale})
}

// queryScale returns the factors of queries, 1 + beta ln(1 + floor(position / original)), where
// original is the length of the original context.
func (c *decoderConfig) queryScale(w *checkpoint.Weights) (ops.PosScale, error) {
	r, err := w.Config.Rope(checkpoint.RopeDefaults{Theta: ministral3RopeTheta})
	if err != nil {
		return ops.PosScale{}, err
	}
	var faults []error
	if r.QueryBeta == nil || !(*r.QueryBeta >= 0 && *r.QueryBeta < maxDimension) {
		faults = append(faults, fmt.Errorf(
			"rope_parameters need a llama_4_scaling_beta from 0 to %d", maxDimension))
	}
	original := int(min(r.OriginalMax, maxDimension+1))
	faults = append(faults, positive("original_max_position_embeddings", original))
	if err := validate(w.Config.ModelType, faults...); err != nil || *r.QueryBeta == 0 {
		return ops.PosScale{}, err
	}
	steps := (c.MaxPositionEmbeddings + original - 1) / original
	if steps > maxQuerySteps {
		return ops.PosScale{}, unsupported(w, "max_position_embeddings is %d times "+
			"original_max_position_embeddings, expected at most %d", steps, maxQuerySteps)
	}
	factors := make([]float32, steps)
	for i := range factors {
		factors[i] = float32(1 + *r.QueryBeta*math.Log(float64(1+i)))
	}
	return ops.PosScale{Factors: kernels.FromFloat32s(w.Device, 1, steps, factors),
		Step: original}, nil
}
