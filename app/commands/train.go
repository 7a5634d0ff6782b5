package commands

// Fine-tuning with mlx-lm: `headroom train`. Package train says how.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"headroom/app/memory"
	"headroom/app/service"
	"headroom/app/train"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// Train is `headroom train`. Its flags are those of mlx_lm.lora, except for the first group.
type Train struct {
	Model string `arg:"" optional:"" help:"Model to train: a folder, or a name of the list of models." placeholder:"DIR_OR_NAME"`

	// As mlx_lm.lora is called: with the model as a flag, and --train.
	ModelFlag string `name:"model" hidden:""`
	Train     bool   `hidden:""`

	Data        string `help:"Folder with train.jsonl and, if there are, valid.jsonl and test.jsonl; or one file, of which each tenth sample is for the validation." type:"path" required:"" placeholder:"DIR"`
	AdapterPath string `help:"Folder for the adapter. Default: adapters/MODEL-DATA in Headroom's models folder." type:"path" placeholder:"DIR"`
	Resume      bool   `help:"Go on from the latest checkpoint in the adapter's folder, up to --iters iterations."`
	Force       bool   `help:"Write over an adapter or a training in the adapter's folder."`
	Check       bool   `help:"Check data and memory, and stop before the training."`
	Yes         bool   `help:"Install the Python environment with mlx-lm without asking, if it is not there."`

	ModelsDir []string `help:"Another folder to look for models in; may be repeated." placeholder:"DIR" sep:"none" type:"path"`

	FineTuneType string  `help:"What to train: lora, dora or full. Default: lora." enum:",lora,dora,full" default:"" placeholder:"TYPE"`
	Optimizer    string  `help:"Optimizer: adam, adamw, muon, sgd or adafactor. Default: adam." enum:",adam,adamw,muon,sgd,adafactor" default:"" placeholder:"NAME"`
	NumLayers    *int    `help:"Number of layers to train, the last ones; -1: all. Default: 16, or all if there are fewer." placeholder:"N"`
	BatchSize    int     `help:"Samples of a batch. Default: 4." placeholder:"N"`
	Iters        int     `help:"Iterations, one batch each. Default: 1000." placeholder:"N"`
	LearningRate float64 `help:"Learning rate. Default: 1e-5." placeholder:"RATE"`
	MaxSeqLength int     `help:"Maximum number of tokens of a sample; longer ones are cut. Default: 2048." placeholder:"TOKENS"`
	ValBatches   *int    `help:"Batches of a validation; -1: all. Default: 25." placeholder:"N"`
	Report       int     `name:"steps-per-report" help:"Iterations between two reports of the loss. Default: 10." placeholder:"N"`
	Eval         int     `name:"steps-per-eval" help:"Iterations between two validations. Default: 200." placeholder:"N"`
	SaveEvery    int     `help:"Iterations between two checkpoints. Default: 100." placeholder:"N"`
	Accumulate   int     `name:"grad-accumulation-steps" help:"Iterations whose gradients are added for one update. Default: 1." placeholder:"N"`
	Seed         *int    `help:"Seed of the adapter's first values and the order of batches. Default: 0." placeholder:"N"`

	GradCheckpoint bool `help:"Compute activations again in the backward pass: less memory, more time."`
	MaskPrompt     bool `help:"Train only the answers, not the prompts."`
	Test           bool `help:"Evaluate on test.jsonl at the end."`
	TestBatches    *int `help:"Batches of --test; -1: all. Default: 500." placeholder:"N"`

	ResumeAdapterFile string `help:"Weights of an adapter to start from, at iteration 1." type:"existingfile" placeholder:"FILE"`
	Config            string `short:"c" help:"YAML file with options of mlx_lm.lora, also those without a flag, such as lora_parameters. Flags take precedence." type:"existingfile" placeholder:"FILE"`
}

// named returns the model's name.
func (c *Train) named() (string, error) {
	all, err := argumentsOf([]string{c.Model}, []argumentFlag{{"model", "model", c.ModelFlag, ""}})
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// Validate rejects a missing model. kong calls it.
func (c *Train) Validate() error {
	_, err := c.named()
	return err
}

func (c *Train) options() *train.Options {
	return &train.Options{FineTuneType: c.FineTuneType, Optimizer: c.Optimizer,
		NumLayers: c.NumLayers, BatchSize: c.BatchSize, Iters: c.Iters,
		LearningRate: c.LearningRate, MaxSeqLength: c.MaxSeqLength, ValBatches: c.ValBatches,
		Report: c.Report, Eval: c.Eval, SaveEvery: c.SaveEvery, Accumulate: c.Accumulate,
		Seed: c.Seed, GradCheckpoint: c.GradCheckpoint, MaskPrompt: c.MaskPrompt, Test: c.Test,
		TestBatches: c.TestBatches, ResumeAdapterFile: c.ResumeAdapterFile, Config: c.Config}
}

// Run checks the data and the memory, makes the environment if need be, and trains.
func (c *Train) Run(ctx context.Context, t *terminal) error {
	var err error
	if c.Model, err = c.named(); err != nil {
		return err
	}
	model, err := c.model()
	if err != nil {
		return err
	}
	adapter := train.Adapter{Dir: c.AdapterPath}
	if adapter.Dir == "" {
		if adapter.Dir = train.DefaultAdapter(model, c.Data); adapter.Dir == "" {
			return problem.New(problem.BadRequest, "The training was not started",
				"there is no home folder for the adapter", "Use --adapter-path.")
		}
	}
	o := c.options()
	plan, err := train.Prepare(ctx, model, c.Data, adapter, o,
		train.Check{Resume: c.Resume, Force: c.Force})
	if err != nil {
		return err
	}
	if err := c.show(t.err, plan); err != nil || c.Check {
		return err
	}
	environment := train.DefaultEnvironment()
	unlock, err := c.environment(ctx, t, environment)
	if err != nil {
		return err
	}
	defer unlock()
	view := &trainView{out: t.err, onTerminal: isTerminal(t.err)}
	begun := func() {
		view.before(adapter.Losses(plan.Start))
		fmt.Fprintf(t.err, "Training into %s. Ctrl-C pauses it.\n", printable(adapter.Dir))
	}
	err = plan.Train(ctx, environment, begun, view.show)
	view.end()
	return c.ended(t, err, adapter, o)
}

// model returns the folder of the model. The bundled one is written into a folder for that.
func (c *Train) model() (string, error) {
	m, err := resolveAlone(c.ModelsDir, c.Model, "train begins a new adapter of the model alone",
		"To start from an adapter, name the model alone and add --resume-adapter-file with the "+
			"adapter's adapters.safetensors.")
	if err != nil {
		return "", err
	}
	if m.Bundled {
		return train.DefaultEnvironment().Bundled()
	}
	return filepath.Abs(m.Source.Dir)
}

// show says what the data has and what the training needs. The error says why it cannot start.
func (c *Train) show(out io.Writer, plan *train.Plan) error {
	if plan.DataErr != nil {
		return plan.DataErr
	}
	c.printSets(out, &plan.Sets, plan.Options)
	for _, text := range plan.Sets.Train.Shown {
		fmt.Fprintf(out, "Sample: %s\n", clip(strconv.Quote(text), 400))
	}
	if plan.MemoryErr != nil {
		return plan.MemoryErr
	}
	fmt.Fprintf(out, "The training needs about %s of memory: %s.\n",
		memory.Text(plan.Need.Total()), plan.Need)
	return nil
}

// printSets says what the data has, and which lines of a single file are for what.
func (c *Train) printSets(out io.Writer, data *train.Data, o *train.Options) {
	training, validation, missing := "", "", "There is no valid.jsonl"
	if info, err := os.Stat(c.Data); err == nil && !info.IsDir() {
		training, validation = ", training (all lines but each tenth)",
			", validation (each tenth line)"
		if data.Valid == nil {
			training = ", training (all lines)"
			missing = fmt.Sprintf("There are too few samples for a validation with --batch-size %d",
				o.BatchSize)
		}
	}
	printSet(out, training, data.Train, o)
	if data.Valid != nil {
		printSet(out, validation, data.Valid, o)
	}
	if data.Test != nil {
		printSet(out, "", data.Test, o)
	}
	if data.Valid == nil {
		fmt.Fprintln(out, missing+": mlx-lm trains without a validation loss, so nothing shows "+
			"when the adapter only learns the samples by heart.")
	}
}

func printSet(out io.Writer, use string, s *train.Set, o *train.Options) {
	fmt.Fprintf(out, "%s%s: %s (%s), %d tokens, median %d, longest %d.\n", s.Name, use,
		count(s.Samples, "sample"), s.Form, s.Tokens, s.Median, s.Longest)
	if s.Cut > 0 {
		fmt.Fprintf(out, "  %d are longer than --max-seq-length %d, and their ends are cut.\n",
			s.Cut, o.MaxSeqLength)
	}
	if s.Masked > 0 {
		fmt.Fprintf(out, "  Nothing of %d is trained: their prompts take the whole length.\n",
			s.Masked)
	}
}

// environment locks the environment, and makes it if need be and a person agrees.
func (c *Train) environment(ctx context.Context, t *terminal, e train.Environment) (unlock func(),
	err error) {
	unlock, err = e.Lock()
	if err != nil || e.Ready() {
		return unlock, err
	}
	defer func() {
		if err != nil {
			unlock()
			unlock = nil
		}
	}()
	fmt.Fprintf(t.err, "Training needs a Python environment with %s. Headroom makes one of its "+
		"own in %s, once: about %d MB, from %s. Versions are pinned, and files are checked by "+
		"their hashes.\n", train.Packages, printable(e.Dir()), train.DiskBytes>>20, train.Source)
	if !c.Yes {
		if !canAsk(t) {
			return unlock, problem.New(problem.BadRequest, "The training was not started",
				"the Python environment is not installed", "Add --yes to install it.")
		}
		yes, err := askYes(ctx, t, "Install it?", true)
		if err != nil {
			return unlock, err
		}
		if !yes {
			return unlock, exitProblem // nobody needs to hear that
		}
	}
	return unlock, e.Install(ctx, t.err)
}

// ended says how the training has ended, and how to use or resume it.
func (c *Train) ended(t *terminal, err error, a train.Adapter, o *train.Options) error {
	switch {
	case errors.Is(err, train.ErrPaused):
		path, done := a.Latest()
		if path == "" {
			fmt.Fprintln(t.err, "Paused before the first iteration ended: there is no checkpoint.")
			return exitInterrupted
		}
		fmt.Fprintf(t.err, "Paused after iteration %d, saved in %s. To go on:\n  %s\n", done,
			printable(path), c.again(a, o))
		return exitInterrupted
	case err != nil:
		return err
	case o.FineTuneType == "full":
		fmt.Fprintf(t.out, "%s\n", a.Dir)
		fused := a.Dir + "-fused"
		fmt.Fprintf(t.err, "It has the weights of the trained layers. To make a model of them and "+
			"use it:\n  headroom fuse %s %s %s\n  headroom run --model %s \"…\"\n",
			quoteWord(c.Model), quoteWord(a.Dir), quoteWord(fused), quoteWord(fused))
		return nil
	}
	fmt.Fprintf(t.out, "%s\n", a.Dir)
	if name := listedAdapter(a.Dir); name != "" {
		fmt.Fprintf(t.err, "To use the adapter, here and with the endpoint:\n"+
			"  headroom run --model %s \"…\"\n", quoteWord(name))
		return nil
	}
	fmt.Fprintf(t.err, "To use the adapter:\n  headroom run --model %s --adapter %s \"…\"\n",
		quoteWord(c.Model), quoteWord(a.Dir))
	return nil
}

// listedAdapter returns the name by which requests mean the adapter in a folder, as in
// "model+adapter"; "": the folder is not in a models folder.
func listedAdapter(dir string) string {
	file := service.OpenSettings()
	for _, m := range new(ModelFlags).library(file).Scan() {
		for _, a := range m.Adapters {
			if same(a.Dir, dir) {
				return m.ID + server.AdapterSign + a.Name
			}
		}
	}
	return ""
}

// same reports whether two paths are one folder.
func same(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// again returns the command that goes on with the training.
func (c *Train) again(a train.Adapter, o *train.Options) string {
	words := []string{"headroom", "train", quoteWord(c.Model), "--data", quoteWord(c.Data),
		"--adapter-path", quoteWord(a.Dir), "--resume"}
	for _, flag := range o.Typed() {
		words = append(words, quoteWord(flag))
	}
	return strings.Join(words, " ")
}
