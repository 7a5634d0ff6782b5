// Package convert writes a model in MLX's format: packed as mlx-lm packs it, plain, or unpacked.
//
// It reads any packing that package checkpoint reads. Names and shapes become those of mlx-lm's
// classes (families.go), packed groups have the bits of MLX on a GPU (kernels/quantize), and
// config.json, the index and the other files are those that mlx-lm writes (files.go). So mlx-lm and
// Headroom both load the result.
//
// A conversion has a plan: the tensors of the result (tensor.go), how each is packed (formats.go),
// and its place in a file (layout.go). Then all cores fill the files piece by piece (work.go). The
// memory is that of the pieces being worked on. A conversion that was stopped goes on with the
// first file that is not complete (resume.go).
package convert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"headroom/app/disk"
	"headroom/engine/adapter"
	"headroom/engine/checkpoint"
	"headroom/engine/gguf/original"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/kernels"
)

// Options say what the result is. With the zero value, it is plain, in the type of config.json.
type Options struct {
	// Quantize packs the matrices. The other fields below say how.
	Quantize bool
	Mode     string // "affine" if empty, "mxfp4", "mxfp8" or "nvfp4"
	Bits     int    // 0: that of the mode
	Group    int    // elements that share a scale; 0: that of the mode
	Recipe   string // one of Recipes; "" packs all matrices alike
	// Overrides are formats of modules: "PATH=BITS", "PATH=MODE", "PATH=BITS:GROUP", "PATH=plain".
	// PATH is that of mlx-lm. "*" in it stands for any text.
	Overrides []string

	// Dequantize unpacks a packed model. Without it, and without Quantize, such a model is refused.
	Dequantize bool
	// DType is the type of plain tensors and of scales: "float16", "bfloat16" or "float32"; "":
	// that of config.json, or else the one that each tensor has.
	DType string

	// Adapter is the folder of an adapter that the result has fused; "": none. A packed model is
	// unpacked, unless it is quantized again.
	Adapter string

	// Calibrate is a file of text: plain, or JSON Lines of {"text"} or {"messages"}. Matrices are
	// then packed for the inputs that they get when the model reads it; "": as MLX does.
	Calibrate string
	// TargetBPW is how many bits per weight the result has at most, if it is not 0. Matrices get
	// bits by what their rounding changes for the calibration text.
	TargetBPW float64

	// Name is that of the model on Hugging Face, for the card; "": it is not known.
	Name string
	// Progress, if it is not nil, is called now and then with the size of what is written.
	Progress func(done, total int64)
	// Calibrated, if it is not nil, is called after each packed matrix with the size of all so far.
	Calibrated func(done, total int64)
	// Probed, if it is not nil, is called before each matrix is probed for TargetBPW.
	Probed func(done, total int)
	// Verify, if it is not nil, is called when the folder is complete. If it returns an error, Run
	// returns it, and the conversion counts as stopped: see Discard.
	Verify func(folder string) error
	// Warn, if it is not nil, is called with each thing that the user should know.
	Warn func(text string)

	threads    int                                // 0: all cores
	shardBytes int64                              // 0: mlx-lm's
	free       func(folder string) (int64, error) // nil: disk.FreeBytes
	wrote      func(shard string) error           // nil, or called after each file
}

// Result describes a finished conversion.
type Result struct {
	Bytes         int64 // of all tensors
	Files         int
	Kept          int // files that an earlier run had finished
	BitsPerWeight float64
	Seconds       float64
	Types         []TypeResult // of a GGUF file whose codes were kept; see there
}

// Run converts the model in source to dest, a folder that it makes. Errors are Problems. If ctx
// ends it stops and returns the error of ctx; the same call goes on later.
func Run(ctx context.Context, source checkpoint.Source, dest string, o Options) (Result, error) {
	return run(ctx, &conversion{source: source}, dest, o)
}

// Plan returns the size of what Run would write, or why it would refuse. It reads headers, and
// writes nothing. Errors are Problems.
func Plan(source checkpoint.Source, o Options) (bytes int64, err error) {
	return planned(&conversion{source: source, o: o})
}

// planned returns the size of the result of c, and closes it.
func planned(c *conversion) (bytes int64, err error) {
	defer c.close()
	if err := c.open(); err != nil {
		return 0, err
	}
	if err := c.plan(); err != nil {
		return 0, err
	}
	for _, s := range c.shards {
		bytes += s.size
	}
	return bytes, nil
}

// run converts the source of c, and closes it.
func run(ctx context.Context, c *conversion, dest string, o Options) (Result, error) {
	begun := time.Now()
	if o.free == nil {
		o.free = disk.FreeBytes
	}
	if o.threads == 0 {
		o.threads = runtime.GOMAXPROCS(0)
	}
	if o.Adapter != "" && !o.Quantize {
		o.Dequantize = true
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	c.o = o
	defer c.close()
	if err := c.open(); err != nil {
		return Result{}, err
	}
	if err := c.plan(); err != nil {
		return Result{}, err
	}
	if err := c.readSample(ctx); err != nil {
		return Result{}, err
	}
	if o.Calibrate != "" && !c.isPlain() {
		return c.convertPlain(ctx, dest)
	}
	if err := c.begin(dest); err != nil {
		return Result{}, err
	}
	defer c.unlock()
	c.warnOfBlock()
	c.warnOfPlain()
	if o.Calibrate != "" {
		if err := c.calibrate(ctx); err != nil {
			return Result{}, err
		}
	}
	if err := c.write(ctx); err != nil {
		return Result{}, err
	}
	if c.model != nil {
		if err := c.model.File.Changed(); err != nil {
			return Result{}, problem.Wrap(problem.BadRequest, err,
				"The file was changed while it was converted", "Convert it again.")
		}
	}
	if err := c.finish(); err != nil {
		return Result{}, err
	}
	return Result{Bytes: c.bytes, Files: len(c.shards), Kept: c.keptShards,
		BitsPerWeight: float64(c.bytes) * 8 / float64(max(c.parameters, 1)),
		Seconds:       time.Since(begun).Seconds(), Types: c.typeResults()}, nil
}

// conversion is a running conversion.
type conversion struct {
	o       Options
	source  checkpoint.Source
	model   *original.Model // of a GGUF file, instead of source; nil: there is none
	config  *checkpoint.Config
	family  *family
	adapter [sha256.Size]byte // its digest
	full    *adapter.Full     // of full fine-tuning; nil: none
	weights *checkpoint.Weights
	reads   *reader

	sample          *sampleText // for calibration; nil: there is none
	packed          io.ReaderAt // the matrices that are calibrated
	calibratedBytes int64

	tensors    []*tensor
	shards     []*shard
	formats    formats
	bytes      int64
	parameters int64
	lost       losses
	block      bool // the model's block that drafts tokens was left out

	dest       string
	lock       interface{ Unlock() error }
	state      state
	keptShards int
}

// open opens the model and refuses one that cannot be converted.
func (c *conversion) open() (err error) {
	if c.model != nil {
		return c.openGGUF()
	}
	if c.config, err = c.source.Config(); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	c.weights, err = checkpoint.Open(c.source, c.config, kernels.NewReference())
	if err != nil {
		return err
	}
	c.reads = newReader(c.weights)
	return nil
}

// check refuses an architecture or options that are not supported.
func (c *conversion) check() (err error) {
	if c.family = families[c.config.ModelType]; c.family == nil {
		return problem.Architecture(c.config.ModelType, Supported())
	}
	if err := models.Check(c.config); err != nil {
		return err
	}
	c.formats, err = newFormats(c.o, c.family)
	return err
}

func (c *conversion) close() {
	if c.full != nil {
		_ = c.full.Close()
	}
	if c.model != nil {
		_ = c.model.File.Close()
	}
	if file, ok := c.packed.(io.Closer); ok {
		_ = file.Close()
	}
	if c.weights != nil {
		c.reads.close()
		_ = c.weights.Close()
		c.weights.Device.Close()
	}
}

// plan sets the tensors of the result and their places.
func (c *conversion) plan() error {
	values, err := c.values()
	if err != nil {
		return err
	}
	if err := c.checkPacking(values); err != nil {
		return err
	}
	m := newMapping(c.config, values, c.keepsPacked())
	for _, step := range commonSteps {
		step(m)
	}
	for _, step := range c.family.steps {
		step(m)
	}
	if m.err != nil {
		return m.err
	}
	c.tensors, c.block = m.sorted(), m.block
	if err := c.setTypes(); err != nil {
		return err
	}
	if err := c.fuse(); err != nil {
		return err
	}
	if c.keepsCodes() {
		c.keepFormats()
	} else if err := c.formats.assign(c.tensors, c.config); err != nil {
		return err
	}
	return c.layOut()
}

// values returns the tensors of the source as numbers.
func (c *conversion) values() ([]checkpoint.Values, error) {
	if c.model != nil {
		return c.ggufValues(), nil
	}
	return c.weights.Values()
}

// readFile reads one of the files beside the weights.
func (c *conversion) readFile(name string) ([]byte, error) {
	if c.model != nil {
		return c.model.ReadFile(name)
	}
	return c.source.ReadFile(name)
}

// keepsPacked reports whether experts that the original has in MLX's format stay packed.
func (c *conversion) keepsPacked() bool { return !c.o.Dequantize && c.family.packed }

// checkPacking refuses a packed model if nothing says what to do with it.
func (c *conversion) checkPacking(values []checkpoint.Values) error {
	if c.o.Quantize && c.o.Dequantize {
		return problem.New(problem.BadRequest, "Choose either to quantize or to dequantize",
			"both were asked for", "Leave one of them out.")
	}
	if c.o.Quantize || c.o.Dequantize || c.keepsPacked() || c.keepsCodes() {
		return nil
	}
	for _, v := range values {
		if v.Packing != "" {
			return problem.New(problem.BadRequest, "This model is packed already",
				fmt.Sprintf("tensor %s is packed as %s", v.Name, v.Packing),
				"To pack it for MLX, quantize it: add -q, or --bits. To unpack it, dequantize it: "+
					"add -d.")
		}
	}
	return nil
}

const blockLost = "The result lacks the model's block that drafts tokens (MTP)"

// warnOfBlock says that the model's block that drafts tokens is not in the result.
func (c *conversion) warnOfBlock() {
	if file := c.source.BlockFile(); file != "" {
		c.o.Warn(blockLost + ". To have it, copy " + file + " into its folder.")
	} else if c.block {
		c.o.Warn(blockLost + ", as with mlx-lm. Decoding is slower without it.")
	}
}

// warnOfPlain says which modules of overrides stay plain.
func (c *conversion) warnOfPlain() {
	switch plain := c.formats.undivided; len(plain) {
	case 0:
	case 1:
		c.o.Warn("A module stays plain: " + plain[0] + ".")
	default:
		c.o.Warn(fmt.Sprintf("%d modules stay plain: %s, and so on.", len(plain), plain[0]))
	}
}

// wrap returns the Problem of an error of a file.
func wrap(err error, message string) error {
	var p *problem.Problem
	if err == nil || errors.As(err, &p) || errors.Is(err, context.Canceled) {
		return err
	}
	code := problem.Internal
	if disk.IsFull(err) {
		code = problem.DiskFull
	}
	return problem.Wrap(code, err, message, "Check the disk and run the same command again.")
}

// exists reports whether there is something at a path.
func exists(elements ...string) bool {
	_, err := os.Lstat(filepath.Join(elements...))
	return err == nil
}
