package models

// BERT has post-norm layers of bidirectional attention and a GELU feed-forward part, learned
// positions, and biases everywhere. XLM-RoBERTa is BERT whose positions begin after the padding
// token. A classifier of one class scores how well the second of two texts answers the first.
//
// Sources: Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers"; Conneau et
// al. 2019, "Unsupervised Cross-lingual Representation Learning at Scale"; Hugging Face
// transformers, models/bert and models/xlm_roberta. Checkpoints: bge, e5, gte, all-MiniLM,
// multilingual-e5 and bge-m3; as a classifier, bge-reranker.

import (
	"math"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/nn"
	"headroom/engine/ops"
	"headroom/kernels"
)

type bertConfig struct {
	encoderConfig
	HiddenAct             string  `json:"hidden_act"`
	LayerNormEps          float32 `json:"layer_norm_eps"`
	TypeVocabSize         int     `json:"type_vocab_size"`
	PadTokenID            *int    `json:"pad_token_id"`
	PositionEmbeddingType string  `json:"position_embedding_type"`
	IsDecoder             bool    `json:"is_decoder"`
}

// newBERTConfig returns the defaults of transformers.
func newBERTConfig() bertConfig {
	return bertConfig{
		encoderConfig: encoderConfig{VocabSize: 30522, HiddenSize: 768, IntermediateSize: 3072,
			NumHiddenLayers: 12, NumAttentionHeads: 12, MaxPositionEmbeddings: 512},
		HiddenAct: "gelu", LayerNormEps: 1e-12, TypeVocabSize: 2,
		PositionEmbeddingType: "absolute",
	}
}

func (c *bertConfig) read(w *checkpoint.Weights) error {
	if err := w.Config.Decode(c); err != nil {
		return err
	}
	switch {
	case c.HiddenAct != "gelu":
		return notGELU(w, "hidden_act", c.HiddenAct)
	case c.PositionEmbeddingType != "absolute" || c.IsDecoder:
		return unsupported(w, "position_embedding_type is %q and is_decoder %t, expected absolute "+
			"and false", c.PositionEmbeddingType, c.IsDecoder)
	}
	if err := validate(w.Config.ModelType, epsilon("layer_norm_eps", c.LayerNormEps),
		positive("type_vocab_size", c.TypeVocabSize)); err != nil {
		return err
	}
	return c.check(w)
}

func loadBERT(w *checkpoint.Weights) (*encoder, error) {
	c := newBERTConfig()
	if err := c.read(w); err != nil {
		return nil, err
	}
	if c.TypeVocabSize > 1 && w.Config.Modules.Task == modelfile.Rerank {
		return nil, unsupported(w, "it is a classifier with type_vocab_size %d, expected 1: "+
			"Headroom does not tell the model where the second text begins", c.TypeVocabSize)
	}
	return c.load(w, w.At("bert.", ""), 0), nil
}

func loadXLMRoBERTa(w *checkpoint.Weights) (*encoder, error) {
	c := newBERTConfig()
	c.LayerNormEps, c.PadTokenID = 1e-5, new(1)
	if err := c.read(w); err != nil {
		return nil, err
	}
	// Positions are counted from the one after that of the padding token.
	first := 0
	if c.PadTokenID != nil {
		first = *c.PadTokenID + 1
	}
	if first < 0 || first >= c.MaxPositionEmbeddings {
		return nil, unsupported(w, "pad_token_id is %d with max_position_embeddings %d", first-1,
			c.MaxPositionEmbeddings)
	}
	return c.load(w, w.At("roberta.", ""), first), nil
}

// load loads the encoder s. first is the row of the position of the first token.
func (c *bertConfig) load(w *checkpoint.Weights, s checkpoint.Scope, first int) *encoder {
	hidden, e := c.HiddenSize, s.Sub("embeddings")
	types := e.Matrix("token_type_embeddings.weight", c.TypeVocabSize, hidden, 0)
	m := &encoder{
		spec:           c.spec(c.MaxPositionEmbeddings - first),
		wordEmbeddings: e.Linear("word_embeddings", c.VocabSize, hidden),
		position:       e.Linear("position_embeddings", c.MaxPositionEmbeddings, hidden),
		firstPosition:  int32(first),
		embeddingNorm:  loadLayerNorm(e, "LayerNorm", hidden, true, c.LayerNormEps),

		classifierPooling: modelfile.PoolFirst,
	}
	if w.Err() == nil {
		m.tokenType = types.RowRange(0, 1)
	}
	m.loadLayers(w, s.Sub("encoder.layer"), c.NumHiddenLayers,
		func(_ int, s checkpoint.Scope) encoderLayer { return c.layer(w, s) })
	m.classifier = func() []headLayer {
		head := w.At("").Sub("classifier")
		if !head.Has("dense.weight") {
			return nil
		}
		return []headLayer{
			{Linear: loadLinear(head, "dense", hidden, hidden, true), tanh: true},
			{Linear: loadLinear(head, "out_proj", 1, hidden, true)},
		}
	}
	return m
}

// bertLayer implements encoderLayer. The norms are after the parts.
type bertLayer struct {
	attention                nn.Attention
	attentionNorm, finalNorm layerNorm
	feedForward              geluLayer
}

func (c *bertConfig) layer(w *checkpoint.Weights, s checkpoint.Scope) *bertLayer {
	hidden, self := c.HiddenSize, s.Sub("attention.self")
	return &bertLayer{
		attention: nn.Attention{
			QProj: loadLinear(self, "query", hidden, hidden, true),
			KProj: loadLinear(self, "key", hidden, hidden, true),
			VProj: loadLinear(self, "value", hidden, hidden, true),
			OProj: loadLinear(s, "attention.output.dense", hidden, hidden, true),
			Heads: c.NumAttentionHeads, KVHeads: c.NumAttentionHeads, HeadDim: c.headDim(),
			Scale:         float32(1 / math.Sqrt(float64(c.headDim()))),
			Bidirectional: true,
		},
		attentionNorm: loadLayerNorm(s, "attention.output.LayerNorm", hidden, true, c.LayerNormEps),
		feedForward: geluLayer{
			in:   loadLinear(s, "intermediate.dense", c.IntermediateSize, hidden, true),
			out:  loadLinear(s, "output.dense", hidden, c.IntermediateSize, true),
			ones: ones(w, c.IntermediateSize),
		},
		finalNorm: loadLayerNorm(s, "output.LayerNorm", hidden, true, c.LayerNormEps),
	}
}

func (l *bertLayer) forward(c *ops.Context, b *batch.Batch, h kernels.Tensor, memory cache.Layer) {
	x, n := l.attention.Forward(c, b, h, memory), &l.attentionNorm
	c.AddLayerNormTo(h, h, x, n.weight, n.bias, n.eps)
	x, n = l.feedForward.forward(c, h), &l.finalNorm
	c.AddLayerNormTo(h, h, x, n.weight, n.bias, n.eps)
}
