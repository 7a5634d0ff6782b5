package problem

// The problem of a model whose architecture Headroom does not have.

import (
	"path"
	"strings"
)

// maxTypeBytes bounds the part of a model_type that is compared with the supported ones.
const maxTypeBytes = 100

// Architecture returns the problem of a model with an unsupported model_type. If the type is one of
// models that do not generate text, it says what they are. Otherwise, if the name of a supported
// type is similar, it names that, which is often the previous release of the same family.
func Architecture(modelType string, supported []string) *Problem {
	if what := otherTask(modelType); what != "" {
		return New(UnknownArchitecture, "This is "+what+", not a language model",
			"its model_type is "+modelType,
			"Pick another model: Headroom runs language models, embedding models and rerankers.")
	}
	why := ""
	if name := similar(modelType, supported); name != "" && !isUnrelated(modelType) {
		why = "the supported one with the most similar name is " + name
	}
	return New(UnknownArchitecture,
		"Headroom does not support the architecture \""+modelType+"\" yet", why,
		"Pick another model. `headroom models --help` lists the supported architectures.")
}

// otherTasks maps values of model_type of models that do not generate text from text to what they
// are. A name that ends with * stands for all that begin so.
var otherTasks = []struct{ what, names string }{
	{"a speech recognition model", "whisper wav2vec2* hubert parakeet* moonshine* canary* " +
		"qwen3_asr speech_to_text* seamless_m4t* sensevoice* wavlm data2vec-audio"},
	{"a speech synthesis model",
		"bark vits speecht5 kokoro parler_tts csm dia outetts* qwen3_tts* " +
			"xtts chatterbox* spark*tts voxcpm* fastspeech2*"},
	{"a model of sounds", "encodec mimi dac snac clap musicgen* audio-spectrogram-transformer"},
	{"an embedding model or text classifier",
		"bert roberta xlm-roberta xlm-roberta-xl distilbert albert mpnet electra deberta* " +
			"camembert modernbert neobert nomic_bert* jina_bert* new gte* eurobert xlm* splinter " +
			"longformer big_bird funnel*"},
	{"an image model", "clip* siglip* vit* dinov2* dinov3* sam sam2* sam3* sam_* detr *_detr* " +
		"swin* convnext* resnet* depth_anything* mobilenet* mobilevit* efficientnet* beit deit " +
		"segformer mask2former maskformer owlvit owlv2 grounding-dino yolos timm_wrapper dpt " +
		"zoedepth chinese_clip align groupvit bit regnet"},
	{"an encoder-decoder model", "t5 mt5 umt5 longt5 t5gemma* bart mbart* marian m2m_100 nllb* " +
		"pegasus* blenderbot* led prophetnet fsmt"},
	{"a draft model for another model", "*_mtp *_assistant eagle* *eagle3 dflash* medusa*"},
	{"a time series model", "timesfm* patchtst* autoformer informer chronos*"},
}

// otherTask returns what a model with this model_type is, "" if it may be a language model.
func otherTask(modelType string) string {
	name := strings.ToLower(modelType[:min(len(modelType), maxTypeBytes)])
	for _, task := range otherTasks {
		for pattern := range strings.FieldsSeq(task.names) {
			if ok, _ := path.Match(pattern, name); ok {
				return task.what
			}
		}
	}
	return ""
}

// unrelated are the beginnings of model_types whose names are similar to one of another family.
var unrelated = []string{"minicpm", "minimax", "gpt2", "gpt_neo", "gptj", "gpt_bigcode"}

func isUnrelated(modelType string) bool {
	modelType = strings.ToLower(modelType[:min(len(modelType), maxTypeBytes)])
	for _, family := range unrelated {
		if strings.HasPrefix(modelType, family) {
			return true
		}
	}
	return false
}

// similar returns the one of names that is most similar to name, or "" if none is. Of several it
// returns the last in alphabetical order: the newest version of a family. A name is the more
// similar the fewer bytes have to be inserted, deleted or replaced, and the longer the common
// beginning is: families differ there, and variants at the end. Case does not count.
func similar(name string, names []string) (best string) {
	name = strings.ToLower(name[:min(len(name), maxTypeBytes)])
	bestScore := 0
	for _, other := range names {
		changes, prefix := distance(name, other), commonPrefix(name, other)
		if prefix < minFamilyBytes && bytesPerChange*changes > len(name) {
			continue
		}
		score := changes - 2*prefix
		if best == "" || score < bestScore || score == bestScore && other > best {
			best, bestScore = other, score
		}
	}
	return best
}

// Two names are similar if they have a common beginning of minFamilyBytes, or at most one change in
// bytesPerChange bytes.
const (
	minFamilyBytes = 3
	bytesPerChange = 3
)

func commonPrefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance returns the Levenshtein distance of two texts, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances of the bytes of a so far from every b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
