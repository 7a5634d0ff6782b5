package commands

// A model in another packing: `headroom convert`.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"headroom/app/hub"
	"headroom/engine"
	"headroom/engine/convert"
	"headroom/engine/gguf"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// The folders for results that are not named, as in mlx-lm: in the folder of whoever runs the
// command.
const (
	convertedFolder = "mlx_model"
	fusedFolder     = "fused_model"
)

// Convert is `headroom convert`. The names of mlx_lm.convert's flags stand for the arguments, too.
type Convert struct {
	Source  string `arg:"" optional:"" help:"Model to convert: a folder, a GGUF file, or a name of the list of models." placeholder:"DIR_OR_NAME"`
	Dest    string `arg:"" optional:"" help:"Folder for the result. Default: mlx_model in this folder. It must not exist, be empty, or have an unfinished run of the same conversion, which then goes on." type:"path" placeholder:"DIR"`
	HFPath  string `name:"hf-path" aliases:"model" hidden:""`
	MLXPath string `name:"mlx-path" hidden:"" type:"path"`
	ConvertFlags
	ConvertUpload
}

// arguments returns the source and the folder for the result.
func (c *Convert) arguments() (source, dest string, err error) {
	all, err := argumentsOf([]string{c.Source, c.Dest}, []argumentFlag{
		{"source", "hf-path", c.HFPath, ""}, {"dest", "mlx-path", c.MLXPath, convertedFolder}})
	if err != nil {
		return "", "", err
	}
	return all[0], all[1], nil
}

// Validate rejects missing arguments. kong calls it.
func (c *Convert) Validate() error {
	_, _, err := c.arguments()
	return err
}

// Fuse is `headroom fuse`. The names of mlx_lm.fuse's flags stand for the arguments, too.
type Fuse struct {
	Source      string `arg:"" optional:"" help:"Model of the adapter: a folder, a GGUF file, or a name of the list of models." placeholder:"DIR_OR_NAME"`
	Adapter     string `arg:"" optional:"" help:"Folder of the LoRA or DoRA adapter, or of what full fine-tuning has written, or the name of an adapter in the list of models. Leave it out after MODEL+ADAPTER." placeholder:"ADAPTER"`
	Dest        string `arg:"" optional:"" help:"Folder for the result, as in convert. Default: fused_model in this folder." type:"path" placeholder:"DIR"`
	Model       string `hidden:""`
	AdapterPath string `name:"adapter-path" hidden:"" type:"path"`
	SavePath    string `name:"save-path" hidden:"" type:"path"`
	ConvertFlags
	ConvertUpload
}

// arguments returns the source, the folder of the adapter and that for the result. The adapter may
// be one of the list: after the source, as in "model+adapter", or by its name in its place.
func (c *Fuse) arguments() ([]string, error) {
	model, adapter := c.Model, c.AdapterPath
	args := []string{c.Source, c.Adapter, c.Dest}
	named, _, hasSign := server.CutAdapter(cmp.Or(c.Model, c.Source))
	if hasSign && adapter == "" {
		if _, a, _ := resolveAdapted(c.ModelsDir, cmp.Or(c.Model, c.Source)); a != nil {
			if c.Model == "" {
				args = args[1:]
			}
			model, adapter = named, a.Dir
		}
	}
	all, err := argumentsOf(args, []argumentFlag{{"source", "model", model, ""},
		{"adapter", "adapter-path", adapter, ""}, {"dest", "save-path", c.SavePath, fusedFolder}})
	if err != nil {
		return nil, err
	}
	if adapter == "" {
		all[1] = c.adapterDir(all[0], all[1])
	}
	if all[2] != fusedFolder {
		all[2] = kong.ExpandPath(all[2])
	}
	return all, nil
}

// adapterDir returns the folder of an adapter, which may be the name of one of the model's.
func (c *Fuse) adapterDir(model, dirOrName string) string {
	dir := kong.ExpandPath(dirOrName)
	if _, err := os.Stat(dir); err == nil || strings.ContainsRune(dirOrName, filepath.Separator) {
		return dir
	}
	_, a, _ := resolveAdapted(c.ModelsDir, model+server.AdapterSign+dirOrName)
	if a != nil {
		return a.Dir
	}
	return dir
}

// Validate rejects missing arguments. kong calls it.
func (c *Fuse) Validate() error {
	_, err := c.arguments()
	return err
}

// Run writes the model with the adapter fused.
func (c *Fuse) Run(ctx context.Context, t *terminal) error {
	all, err := c.arguments()
	if err != nil {
		return err
	}
	source, file, err := c.source(all[0])
	if err != nil {
		return err
	}
	return (&Convert{Source: all[0], Dest: all[2], ConvertFlags: c.ConvertFlags,
		ConvertUpload: c.ConvertUpload}).run(ctx, t, source, file, all[1])
}

// ConvertFlags say how the result is packed.
type ConvertFlags struct {
	Quantize       bool     `short:"q" help:"Pack the matrices. The flags for how to pack them imply it."`
	Bits           int      `aliases:"q-bits" help:"Bits of a code: 2, 3, 4, 5, 6 or 8. Default: that of the mode." placeholder:"N"`
	GroupSize      int      `aliases:"q-group-size" help:"Elements of a row that share a scale: 32, 64 or 128 in affine. Default: that of the mode." placeholder:"N"`
	Mode           string   `aliases:"q-mode" help:"How elements are packed: affine (4 bits in groups of 64), mxfp4 (4, 32), mxfp8 (8, 32) or nvfp4 (4, 16). Default: affine." enum:",affine,mxfp4,mxfp8,nvfp4" default:"" placeholder:"MODE"`
	QuantPredicate string   `help:"Recipe with two numbers of bits: mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6. The larger one is for the head and some projections of values and down." enum:",mixed_2_6,mixed_3_4,mixed_3_6,mixed_4_6" default:"" placeholder:"RECIPE"`
	Calibrate      string   `help:"Text that tells which errors matter: plain text, or JSON Lines of {\"text\"} or {\"messages\"}. Rounding then follows the inputs that each matrix gets (GPTQ), for a smaller loss at the same size." type:"path" placeholder:"FILE"`
	TargetBPW      float64  `name:"target-bpw" help:"Bits per weight of the whole result, at most: 2.25 to 8.5. Matrices get 2 to 8 bits by what their rounding changes. It needs --calibrate." placeholder:"N"`
	Override       []string `help:"Format of a module by its path, in which * stands for any text: PATH=8, PATH=4:32, PATH=mxfp4 or PATH=plain; may be repeated." placeholder:"PATH=FORMAT" sep:"none"`
	Dequantize     bool     `short:"d" help:"Unpack a packed model."`
	DType          string   `name:"dtype" help:"Type of what is not packed, and of scales: float16 (fp16, f16), bfloat16 (bf16) or float32 (fp32, f32). Default: that of config.json, or of each tensor; of a GGUF file, float16 where it has blocks." enum:",float16,fp16,f16,bfloat16,bf16,float32,fp32,f32" default:"" placeholder:"TYPE"`
	ModelsDir      []string `help:"Another folder to look for models in; may be repeated." placeholder:"DIR" sep:"none" type:"path"`
}

// Run converts the model and shows the progress. A second run goes on where the first was stopped.
func (c *Convert) Run(ctx context.Context, t *terminal) error {
	var err error
	if c.Source, c.Dest, err = c.arguments(); err != nil {
		return err
	}
	source, file, err := c.source(c.Source)
	if err != nil {
		return err
	}
	return c.run(ctx, t, source, file, "")
}

// run converts the model, or the GGUF file if there is one, with the adapter in a folder fused if
// there is one.
func (c *Convert) run(ctx context.Context, t *terminal, source engine.Source, file,
	adapter string) (err error) {
	if err := c.ConvertUpload.check(ctx); err != nil {
		return err
	}
	o := convert.Options{Adapter: adapter,
		Quantize: c.Quantize || c.Bits != 0 || c.GroupSize != 0 || c.Mode != "" ||
			c.QuantPredicate != "" || c.Override != nil || c.Calibrate != "" || c.TargetBPW != 0,
		Calibrate: c.Calibrate, TargetBPW: c.TargetBPW,
		Mode: c.Mode, Bits: c.Bits, Group: c.GroupSize, Recipe: c.QuantPredicate,
		Overrides: c.Override, Dequantize: c.Dequantize, DType: dtypeOf(c.DType),
		Warn: func(text string) { fmt.Fprintln(t.err, printable(text)) },
	}
	if hub.CheckID(c.Source) == nil {
		o.Name = c.Source
	}
	larger := ""
	if adapter != "" && file == "" {
		larger = c.larger(source, o)
	}
	p := newConvertProgress(t.err)
	var begun sync.Once
	o.Progress = func(done, total int64) { // it is called only if nothing was refused
		begun.Do(func() { fmt.Fprint(t.err, larger) })
		p.update(done, total)
	}
	o.Calibrated = func(done, total int64) { p.say("Calibrating", done, total) }
	o.Probed = func(done, total int) { p.say("Probing matrices", int64(done), int64(total)) }
	var done convert.Result
	if file != "" {
		done, err = convert.RunGGUF(ctx, file, c.Dest, o)
	} else {
		done, err = convert.Run(ctx, source, c.Dest, o)
	}
	p.clear()
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(t.err, "Stopped. Run the same command to go on.")
		}
		return err
	}
	if err := checkResult(c.Dest); err != nil {
		return problem.Wrap(problem.ModelBroken, err, "The result in "+c.Dest+" cannot be loaded",
			"")
	}
	for _, one := range done.Types {
		fmt.Fprintln(t.out, one)
	}
	fmt.Fprintf(t.out, "%s: %s in %s, %.2f bits per weight", c.Dest, formatBytes(done.Bytes),
		count(done.Files, "file"), done.BitsPerWeight)
	if done.Kept > 0 {
		fmt.Fprintf(t.out, ", %d from an earlier run", done.Kept)
	}
	fmt.Fprintf(t.out, ", %s\n", formatSeconds(done.Seconds))
	return c.ConvertUpload.run(ctx, t, c.Dest)
}

// checkResult returns why the result in a folder cannot be loaded. Tests replace it.
var checkResult = func(dir string) error {
	_, err := engine.Describe(engine.Source{Dir: dir}, engine.Options{})
	return err
}

// larger returns a line about a packed model that becomes larger when an adapter is fused into it;
// "": it is not packed, is packed again, or does not become larger.
func (c *Convert) larger(source engine.Source, o convert.Options) string {
	if o.Quantize {
		return ""
	}
	o.Dequantize = true // as convert.Run sets it
	o.Warn = func(string) {}
	d, err := engine.Describe(source, engine.Options{})
	bytes, failed := convert.Plan(source, o)
	if err != nil || failed != nil || d.Quantization == engine.NotQuantized ||
		bytes <= d.SizeBytes { // the conversion says what is wrong
		return ""
	}
	return fmt.Sprintf("%s is packed (%s) and has %s. The result is not packed, and has %s: add "+
		"-q to pack it again.\n", printable(c.Source), d.Quantization, formatBytes(d.SizeBytes),
		formatBytes(bytes))
}

// dtypeAliases are other names of types.
var dtypeAliases = map[string]string{"fp16": "float16", "f16": "float16", "bf16": "bfloat16",
	"fp32": "float32", "f32": "float32"}

// dtypeOf returns the name of a type by itself or an alias.
func dtypeOf(name string) string {
	if full, ok := dtypeAliases[name]; ok {
		return full
	}
	return name
}

// source returns the model to convert: that of a name or folder, or else a GGUF file.
func (f *ConvertFlags) source(name string) (source engine.Source, file string, err error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && gguf.IsModel(name) {
		return source, name, nil
	}
	if info, err := os.Stat(name); gguf.IsFile(name) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return source, "", problem.New(problem.ModelNotFound, "There is no file "+name, "",
				"Check the path.")
		case err == nil && info.Mode().IsRegular():
			return source, "", problem.New(problem.BadRequest, name+" is not a GGUF file",
				"it does not begin with GGUF", "Download it again.")
		}
	}
	m, err := resolveAlone(f.ModelsDir, name, "convert takes a model without an adapter",
		"To write the model with the adapter in its weights, run: headroom fuse "+
			quoteWord(name)+" DIR")
	if err == nil || m.Dir == "" {
		return m.Source, "", err
	}
	file, found := gguf.In(m.Dir)
	switch {
	case found != nil:
		return m.Source, "", problem.New(problem.BadRequest, "There are several models in "+m.Dir,
			found.Error(), "Name one of the files.")
	case file == "":
		return m.Source, "", err
	}
	return m.Source, file, nil
}

// convertProgress shows how much is written: a line that changes on a terminal, and one every few
// seconds elsewhere.
type convertProgress struct {
	out        io.Writer
	onTerminal bool

	mu           sync.Mutex
	begun, shown time.Time
	first        int64 // written before the first update
}

func newConvertProgress(out io.Writer) *convertProgress {
	now := time.Now()
	return &convertProgress{out: out, onTerminal: isTerminal(out), begun: now, shown: now,
		first: -1}
}

// update is called after each piece, by several goroutines.
func (p *convertProgress) update(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, every := time.Now(), reportEvery
	if p.first < 0 {
		p.first, p.begun = done, now
	}
	if p.onTerminal {
		every = 250 * time.Millisecond
	}
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	line := fmt.Sprintf("Writing: %s of %s (%d %%)", formatBytes(done), formatBytes(total),
		min(100*done/max(total, 1), 100))
	if seconds := now.Sub(p.begun).Seconds(); seconds > 0 && done > p.first {
		speed := float64(done-p.first) / seconds
		left := time.Duration(float64(total-done) / speed * float64(time.Second))
		line += fmt.Sprintf(", %s/s, %s left", formatBytes(int64(speed)), left.Round(time.Second))
	}
	if p.onTerminal {
		fmt.Fprint(p.out, "\r\x1b[K"+clip(line, 120))
		return
	}
	fmt.Fprintln(p.out, line)
}

// say shows how much of a step before the writing is done.
func (p *convertProgress) say(what string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, every := time.Now(), reportEvery
	if p.onTerminal {
		every = 250 * time.Millisecond
	}
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%s: %d %%", what, min(100*done/max(total, 1), 100))
	if p.onTerminal {
		fmt.Fprint(p.out, "\r\x1b[K"+line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// clear removes the line.
func (p *convertProgress) clear() {
	if p.onTerminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
