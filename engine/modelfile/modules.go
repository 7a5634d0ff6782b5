package modelfile

// The modules of sentence-transformers: what becomes of the hidden states of a model that computes
// vectors or scores instead of text. modules.json lists them, and each has a folder with its
// config. Sources: sentence-transformers, base/modules and */modules.

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"headroom/engine/problem"
)

// Task is what a model is for.
type Task string

// The tasks of models.
const (
	Generate Task = ""       // to generate text
	Embed    Task = "embed"  // to compute the vector of a text
	Rerank   Task = "rerank" // to compute how well a text answers a query
)

// Pooling says of which hidden states of a text its vector is made.
type Pooling string

// The ways of pooling, as sentence-transformers calls them.
const (
	PoolFirst Pooling = "cls"
	PoolLast  Pooling = "lasttoken"
	PoolMean  Pooling = "mean"
)

// Modules describe a model that computes vectors or scores.
type Modules struct {
	Task      Task
	Pooling   Pooling // "" for a Rerank model with a head of its own
	Dense     []Dense // applied to the pooled vector, in order
	Normalize bool    // the vector has length 1
	Score     *Score  // of a Rerank model that is a language model; else nil
	MaxTokens int     // longest text; 0: as long as the model allows
}

// Dense is a linear layer with an activation.
type Dense struct {
	Path       string // of the folder with its weights, in the model's; not in its config
	In         int    `json:"in_features"`
	Out        int    `json:"out_features"`
	Bias       bool   `json:"bias"`
	Activation string `json:"activation_function"` // the class of PyTorch
	Residual   bool   `json:"use_residual"`
}

// Tanh reports whether the activation is the hyperbolic tangent. Otherwise there is none.
func (d *Dense) Tanh() bool { return strings.HasSuffix(d.Activation, "Tanh") }

// Score makes a score of the logits after the last token: that of True minus that of False.
type Score struct {
	True  *int32 `json:"true_token_id"`
	False *int32 `json:"false_token_id"` // nil: the score is the logit of True
}

// module is an entry of modules.json.
type module struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// ReadModules reads the modules of a model with the function read, which reads a file of its
// folder. It returns nil if the model has none, and so generates text. Errors are Problems.
func ReadModules(read func(name string) ([]byte, error)) (*Modules, error) {
	decode := func(name string, v any) (found bool, err error) {
		data, err := read(name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err == nil {
			err = Decode("", data, v)
		}
		if err != nil {
			return false, problem.Wrap(problem.ModelBroken, err,
				"The model's "+Excerpt(name)+" cannot be used",
				"Download or convert the model again.")
		}
		return true, nil
	}
	var about struct {
		Type string `json:"model_type"`
	}
	described, err := decode("config_sentence_transformers.json", &about)
	if err != nil {
		return nil, err
	}
	var list []module
	listed, err := decode("modules.json", &list)
	if err != nil && described {
		return nil, err
	}
	ours := slices.ContainsFunc(list, func(m module) bool {
		return strings.HasPrefix(m.Type, "sentence_transformers.")
	})
	if !listed || err != nil || !ours { // modules.json may be another program's
		if listed, err = decode("1_Pooling/config.json", new(struct{})); err != nil || !listed {
			return nil, err
		}
		list = []module{{Type: "Transformer"}, {Path: "1_Pooling", Type: "Pooling"}}
	}
	m := &Modules{Task: Embed}
	switch about.Type {
	case "", "SentenceTransformer":
	case "CrossEncoder":
		m.Task = Rerank
	default:
		return nil, unsupportedModules("config_sentence_transformers.json has the model_type " +
			Excerpt(about.Type))
	}
	for i, one := range list {
		if err := m.add(i, one, decode); err != nil {
			return nil, err
		}
	}
	var text struct {
		MaxTokens *int `json:"max_seq_length"`
	}
	if _, err := decode("sentence_bert_config.json", &text); err != nil {
		return nil, err
	}
	if text.MaxTokens != nil {
		m.MaxTokens = max(0, *text.MaxTokens)
	}
	return m, m.check()
}

// add adds entry i of modules.json.
func (m *Modules) add(i int, one module, decode func(string, any) (bool, error)) error {
	dir := path.Clean(one.Path)
	if one.Path != "" && !fs.ValidPath(dir) {
		return unsupportedModules("modules.json has the path " + Excerpt(one.Path))
	}
	kind := one.Type[strings.LastIndexByte(one.Type, '.')+1:]
	if (i == 0) != (kind == "Transformer") || i == 0 && dir != "." {
		return unsupportedModules(fmt.Sprintf("module %d in modules.json is %s in the folder %q, "+
			"expected the Transformer first, in the model's folder", i, Excerpt(kind),
			Excerpt(one.Path)))
	}
	config := path.Join(dir, "config.json")
	required := func(name string, v any) error {
		found, err := decode(name, v)
		if err == nil && !found {
			err = problem.New(problem.ModelBroken, "The model's "+Excerpt(name)+" is missing",
				"modules.json names its folder", "Download or convert the model again.")
		}
		return err
	}
	switch kind {
	case "Transformer":
		return nil
	case "Pooling":
		return m.addPooling(config, required)
	case "Normalize":
		m.Normalize = true
		return nil
	case "Dense":
		d := Dense{Path: dir, Bias: true, Activation: "torch.nn.modules.activation.Tanh"}
		if err := required(config, &d); err != nil {
			return err
		}
		if identity := strings.HasSuffix(d.Activation, "Identity"); !identity && !d.Tanh() ||
			d.Residual || m.Normalize || m.Pooling == "" {
			return unsupportedModules(config + " has activation_function " +
				Excerpt(d.Activation) + fmt.Sprintf(", use_residual %t; expected Identity or Tanh "+
				"without a residual, after the pooling and before Normalize", d.Residual))
		}
		m.Dense = append(m.Dense, d)
		return nil
	case "LogitScore":
		m.Score = &Score{}
		return required(config, m.Score)
	}
	return unsupportedModules("modules.json has the module " + Excerpt(kind))
}

// legacyPooling are the keys of old configs of Pooling.
type legacyPooling struct {
	First  bool `json:"pooling_mode_cls_token"`
	Mean   bool `json:"pooling_mode_mean_tokens"`
	Last   bool `json:"pooling_mode_lasttoken"`
	Max    bool `json:"pooling_mode_max_tokens"`
	Root   bool `json:"pooling_mode_mean_sqrt_len_tokens"`
	Weight bool `json:"pooling_mode_weightedmean_tokens"`
}

func (m *Modules) addPooling(config string, decode func(string, any) error) error {
	var c struct {
		legacyPooling
		Mode any `json:"pooling_mode"`
	}
	if err := decode(config, &c); err != nil {
		return err
	}
	var modes []string
	switch mode := c.Mode.(type) {
	case string:
		modes = []string{mode}
	case []any:
		for _, one := range mode {
			modes = append(modes, fmt.Sprint(one))
		}
	}
	for mode, on := range map[Pooling]bool{PoolFirst: c.First, PoolMean: c.Mean, PoolLast: c.Last,
		"max": c.Max, "mean_sqrt_len_tokens": c.Root, "weightedmean": c.Weight} {
		if on && c.Mode == nil {
			modes = append(modes, string(mode))
		}
	}
	if len(modes) == 0 {
		modes = []string{string(PoolMean)}
	}
	m.Pooling = Pooling(modes[0])
	if len(modes) > 1 || !slices.Contains([]Pooling{PoolFirst, PoolMean, PoolLast}, m.Pooling) {
		slices.Sort(modes)
		return unsupportedModules(config + " has the pooling " +
			Excerpt(strings.Join(modes, ", ")) + ", expected one of cls, mean and lasttoken")
	}
	return nil
}

// check checks the modules together.
func (m *Modules) check() error {
	switch {
	case m.Task == Embed && m.Pooling == "":
		return unsupportedModules("modules.json has no Pooling")
	case m.Task == Rerank && (m.Pooling != "" || m.Normalize):
		return unsupportedModules("modules.json has modules for vectors, and " +
			"config_sentence_transformers.json has the model_type CrossEncoder")
	case m.Score != nil && (m.Task != Rerank || m.Score.True == nil):
		return unsupportedModules("modules.json has a LogitScore without true_token_id, or in a " +
			"model for vectors")
	}
	if m.Score != nil {
		m.Pooling = PoolLast
	}
	return nil
}

// unsupportedModules returns the Problem of a model of sentence-transformers that Headroom cannot
// run.
func unsupportedModules(why string) error {
	return problem.New(problem.UnknownArchitecture,
		"Headroom cannot run this variant of an embedding model", why, "Pick another model.")
}
