package train

// Flags of mlx_lm.lora and its configuration file. A flag takes precedence over the file, and the
// file over mlx-lm's default.

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"headroom/engine/modelfile"
	"headroom/engine/problem"
)

// Options describe a training. Zero and nil values are those of the configuration file, or else
// mlx-lm's defaults; Resolve fills them in.
type Options struct {
	FineTuneType string // lora, dora or full
	Optimizer    string // adam, adamw, muon, sgd or adafactor
	NumLayers    *int   // last layers to train; -1: all
	BatchSize    int
	Iters        int
	LearningRate float64
	MaxSeqLength int
	ValBatches   *int // -1: the whole validation set
	Report       int  // --steps-per-report
	Eval         int  // --steps-per-eval
	SaveEvery    int
	Accumulate   int // --grad-accumulation-steps
	Seed         *int

	GradCheckpoint bool
	MaskPrompt     bool
	Test           bool // evaluate on test.jsonl after the training
	TestBatches    *int // -1: the whole test set

	ResumeAdapterFile string // weights to start from
	Config            string // YAML file, which mlx-lm reads too

	Rank int  // of LoRA and DoRA; only the configuration file has it
	Keys Keys // of the data; only the configuration file has them

	given []string // flags for mlx_lm.lora: those that were typed
	typed []string // those, and the ones that a run computes
}

// Typed returns the flags that were typed, other than those of the run, after Resolve.
func (o *Options) Typed() []string { return o.typed }

// config is what a configuration file may have. Fields that are not listed are refused.
type config struct {
	FineTuneType string         `yaml:"fine_tune_type"`
	Optimizer    string         `yaml:"optimizer"`
	Optimizers   map[string]any `yaml:"optimizer_config"`
	NumLayers    *int           `yaml:"num_layers"`
	BatchSize    int            `yaml:"batch_size"`
	Iters        int            `yaml:"iters"`
	ValBatches   *int           `yaml:"val_batches"`
	LearningRate number         `yaml:"learning_rate"`
	Report       int            `yaml:"steps_per_report"`
	Eval         int            `yaml:"steps_per_eval"`
	Accumulate   int            `yaml:"grad_accumulation_steps"`
	SaveEvery    int            `yaml:"save_every"`
	MaxSeqLength int            `yaml:"max_seq_length"`
	Seed         *int           `yaml:"seed"`
	Checkpoint   bool           `yaml:"grad_checkpoint"`
	MaskPrompt   bool           `yaml:"mask_prompt"`
	Test         bool           `yaml:"test"`
	TestBatches  *int           `yaml:"test_batches"`
	Resume       string         `yaml:"resume_adapter_file"`
	Threshold    any            `yaml:"clear_cache_threshold"`
	Schedule     any            `yaml:"lr_schedule"`
	Lora         struct {
		Rank    int      `yaml:"rank"`
		Dropout number   `yaml:"dropout"`
		Scale   *number  `yaml:"scale"`
		Keys    []string `yaml:"keys"`
	} `yaml:"lora_parameters"`
	Prompt     string `yaml:"prompt_feature"`
	Completion string `yaml:"completion_feature"`
	Chat       string `yaml:"chat_feature"`
	Text       string `yaml:"text_feature"`

	// Headroom decides these: the flags that it passes take precedence.
	Model   any `yaml:"model"`
	Train   any `yaml:"train"`
	Data    any `yaml:"data"`
	Adapter any `yaml:"adapter_path"`
}

// number is a float that may be written as in Python, 1e-5, which YAML 1.1 reads as a text.
type number float64

// UnmarshalYAML implements yaml.Unmarshaler.
func (n *number) UnmarshalYAML(node *yaml.Node) error {
	v, err := strconv.ParseFloat(strings.ReplaceAll(node.Value, "_", ""), 64)
	if err != nil {
		return fmt.Errorf("line %d: got %q, expected a number", node.Line, node.Value)
	}
	*n = number(v)
	return nil
}

// Resolve reads the configuration file, fills in defaults, and checks every value for the model.
// The error is a Problem.
func (o *Options) Resolve(model *Shape) error {
	typed, layers := *o, model.Layers
	var c config
	if o.Config != "" {
		if err := readConfig(o.Config, &c); err != nil {
			return notStarted(problem.BadRequest, "Correct the file of --config.", "%s: %v",
				o.Config, err)
		}
	}
	o.fill(&c)
	if o.NumLayers == nil {
		// mlx-lm's default is 16, which it refuses for a model with fewer layers.
		n := min(16, layers)
		o.NumLayers, typed.NumLayers = &n, &n
	}
	if err := o.check(layers); err != nil {
		return err
	}
	if o.FineTuneType == "full" && model.Quantized {
		return notStarted(problem.BadRequest, "Use --fine-tune-type lora or dora, or a model that "+
			"is not quantized.", "--fine-tune-type full does not train quantized weights, which "+
			"this model has")
	}
	o.given = typed.flags()
	o.typed = typed.others(o.given)
	return nil
}

func readConfig(path string, c *config) error {
	data, err := modelfile.Read(path)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	d.KnownFields(true)
	switch err := d.Decode(c); {
	case errors.Is(err, io.EOF):
		return errors.New("the file has no options")
	case err != nil:
		return errors.New(plainYAML(err.Error()))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("the file has several documents, expected one: leave out the lines ---")
	}
	if c.Resume != "" {
		// As in mlx-lm, a path is relative to the folder of whoever runs the command.
		if c.Resume, err = filepath.Abs(c.Resume); err == nil {
			_, err = os.Stat(c.Resume)
		}
	}
	return err
}

var (
	unknownOption = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongType     = regexp.MustCompile("cannot unmarshal \\S+ (`.*`) into \\*?(\\S+)")
	typeWords     = strings.NewReplacer("type int", "a whole number", "type bool",
		"true or false", "type string", "a text", "type []string", "a list of texts")
)

// plainYAML returns an error of the YAML package as one sentence.
func plainYAML(text string) string {
	text = strings.TrimPrefix(text, "yaml: unmarshal errors:\n")
	text = unknownOption.ReplaceAllString(text, `headroom train has no option "$1"`)
	text = typeWords.Replace(wrongType.ReplaceAllString(text, "got $1, expected type $2"))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "; ")
}

// fill sets what no flag has set to the value of the file, or else to mlx-lm's default.
func (o *Options) fill(c *config) {
	first(&o.FineTuneType, c.FineTuneType, "lora")
	first(&o.Optimizer, strings.ToLower(c.Optimizer), "adam")
	first(&o.BatchSize, c.BatchSize, 4)
	first(&o.Iters, c.Iters, 1000)
	first(&o.LearningRate, float64(c.LearningRate), 1e-5)
	first(&o.MaxSeqLength, c.MaxSeqLength, 2048)
	first(&o.Report, c.Report, 10)
	first(&o.Eval, c.Eval, 200)
	first(&o.SaveEvery, c.SaveEvery, 100)
	first(&o.Accumulate, c.Accumulate, 1)
	first(&o.ResumeAdapterFile, c.Resume)
	first(&o.Rank, c.Lora.Rank, 8)
	first(&o.NumLayers, c.NumLayers)
	first(&o.ValBatches, c.ValBatches, ref(25))
	first(&o.TestBatches, c.TestBatches, ref(500))
	first(&o.Seed, c.Seed, ref(0))
	o.GradCheckpoint = o.GradCheckpoint || c.Checkpoint
	o.MaskPrompt = o.MaskPrompt || c.MaskPrompt
	o.Test = o.Test || c.Test
	o.Keys = Keys{c.Prompt, c.Completion, c.Chat, c.Text}
	o.Keys.fill()
}

func ref(n int) *int { return &n }

// first sets a value that is zero to the first of the others that is not.
func first[T comparable](value *T, others ...T) {
	var zero T
	for _, other := range others {
		if *value == zero {
			*value = other
		}
	}
}

var (
	fineTuneTypes = []string{"lora", "dora", "full"}
	optimizers    = []string{"adam", "adamw", "muon", "sgd", "adafactor"}
)

func (o *Options) check(layers int) error {
	wrong := func(flag string, got any, expected string) error {
		return notStarted(problem.BadRequest, "", "--%s is %v, expected %s", flag, got, expected)
	}
	for _, n := range []struct {
		flag string
		got  int
	}{{"batch-size", o.BatchSize}, {"iters", o.Iters}, {"steps-per-report", o.Report},
		{"steps-per-eval", o.Eval}, {"save-every", o.SaveEvery}, {"max-seq-length",
			o.MaxSeqLength}, {"grad-accumulation-steps", o.Accumulate},
		{"lora_parameters.rank", o.Rank}} {
		if n.got < 1 || n.got > math.MaxInt32 {
			return wrong(n.flag, n.got, "1 or more")
		}
	}
	switch n := *o.NumLayers; {
	case !slices.Contains(fineTuneTypes, o.FineTuneType):
		return wrong("fine-tune-type", o.FineTuneType, strings.Join(fineTuneTypes, ", "))
	case !slices.Contains(optimizers, o.Optimizer):
		return wrong("optimizer", o.Optimizer, strings.Join(optimizers, ", "))
	case n != -1 && (n < 1 || n > layers):
		return wrong("num-layers", n, fmt.Sprintf("1 to %d, the layers of the model, or -1 for "+
			"all", layers))
	case !(o.LearningRate > 0 && o.LearningRate < 10):
		return wrong("learning-rate", o.LearningRate, "a number above 0, such as 1e-5")
	case *o.ValBatches < -1 || *o.ValBatches == 0:
		return wrong("val-batches", *o.ValBatches, "1 or more, or -1 for the whole set")
	case *o.TestBatches < -1 || *o.TestBatches == 0:
		return wrong("test-batches", *o.TestBatches, "1 or more, or -1 for the whole set")
	case *o.Seed < 0 || *o.Seed > math.MaxUint32:
		return wrong("seed", *o.Seed, "0 or more, below 2^32")
	case o.MaxSeqLength < 2:
		return wrong("max-seq-length", o.MaxSeqLength, "2 or more")
	}
	return nil
}

// flags returns mlx_lm.lora's flags of the values that were typed.
func (o *Options) flags() (flags []string) {
	for _, name := range slices.Sorted(maps.Keys(valueFlags)) {
		if value := valueFlags[name](o); value != "" {
			flags = append(flags, "--"+name, value)
		}
	}
	for _, b := range []struct {
		name string
		set  bool
	}{{"grad-checkpoint", o.GradCheckpoint}, {"mask-prompt", o.MaskPrompt}, {"test", o.Test}} {
		if b.set {
			flags = append(flags, "--"+b.name)
		}
	}
	return flags
}

// others adds the typed flags that a run does not pass on as they are.
func (o *Options) others(flags []string) []string {
	flags = slices.Clone(flags)
	for _, f := range []struct{ name, value string }{{"iters", positive(o.Iters)},
		{"seed", pointed(o.Seed)}} {
		if f.value != "" {
			flags = append(flags, "--"+f.name, f.value)
		}
	}
	return flags
}

// valueFlags has the text of each flag that takes a value; "" if it was not typed. --iters, --seed
// and --resume-adapter-file depend on what earlier runs have done, so the run adds them.
var valueFlags = map[string]func(*Options) string{
	"fine-tune-type":          func(o *Options) string { return o.FineTuneType },
	"optimizer":               func(o *Options) string { return o.Optimizer },
	"num-layers":              func(o *Options) string { return pointed(o.NumLayers) },
	"batch-size":              func(o *Options) string { return positive(o.BatchSize) },
	"max-seq-length":          func(o *Options) string { return positive(o.MaxSeqLength) },
	"val-batches":             func(o *Options) string { return pointed(o.ValBatches) },
	"test-batches":            func(o *Options) string { return pointed(o.TestBatches) },
	"steps-per-report":        func(o *Options) string { return positive(o.Report) },
	"steps-per-eval":          func(o *Options) string { return positive(o.Eval) },
	"save-every":              func(o *Options) string { return positive(o.SaveEvery) },
	"grad-accumulation-steps": func(o *Options) string { return positive(o.Accumulate) },
	"config":                  func(o *Options) string { return o.Config },
	"learning-rate": func(o *Options) string {
		if o.LearningRate == 0 {
			return ""
		}
		return strconv.FormatFloat(o.LearningRate, 'g', -1, 64)
	},
}

func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func pointed(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
