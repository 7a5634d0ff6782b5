package convert

// Calibrated packing. The model runs once over a text, all of which is in one pass. Before an
// operator multiplies with a matrix, the matrix is packed for the inputs that it gets there
// (quantize.PackWithFeedback), and the operator multiplies with the result. So the inputs of a
// layer come from the packed layers before it, and each makes up for what those have lost. Inputs
// from the original would need the memory of a second pass, and would leave those losses as they
// are.
//
// One Hessian is in memory at a time. The experts of a mixture have theirs over the tokens that are
// routed to them, with a small part of that of all tokens: some experts get few.
//
// The packed matrices are kept in a file beside the result, from which it is then written as any
// other. A conversion that was stopped runs the pass again, but reads the matrices that it has.

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/quantize"
)

const (
	calibratedFile = ".headroom-calibrated"

	// damping is the part of the mean of a Hessian's diagonal that is added to it.
	damping = 0.01
	// pooledTokens is how many tokens of all experts count for one, as a part of its columns.
	pooledTokens = 0.125
	// packedElements is how many elements are read at once.
	packedElements = 1 << 23
	// passBytes is the memory for the activations of the pass, unless 2048 tokens need more.
	passBytes = 3 << 30
	// oneSequenceTokens is how many tokens are used of a model that gets one sequence.
	oneSequenceTokens = 4096
)

// calibration is the packing of matrices for the inputs that they get.
type calibration struct {
	c      *conversion
	ctx    context.Context
	sample *sampleText
	isa    cpu.ISA
	file   *os.File
	model  *observed

	done map[*tensor]bool
	rows map[*tensor]int // that are packed of a tensor that is multiplied with in parts
	err  error           // the first
}

// checkCalibration refuses options that do not go together.
func (c *conversion) checkCalibration() error {
	refuse := func(why, fix string) error {
		return problem.New(problem.BadRequest, "These options are not valid", why, fix)
	}
	switch o := &c.o; {
	case o.Calibrate == "" && o.TargetBPW != 0:
		return refuse("a target of bits per weight needs a calibration text",
			"Name one with --calibrate.")
	case o.Calibrate == "":
		return nil
	case !o.Quantize:
		return refuse("a calibration text is given, but the model is not to be quantized",
			"Choose bits, or leave the text out.")
	case c.formats.all.Mode != kernels.Affine:
		return refuse("the mode is "+c.formats.all.Mode.String()+", and only affine is calibrated",
			"Leave the mode or the calibration text out.")
	case o.TargetBPW != 0 && (o.Bits != 0 || o.Recipe != ""):
		return refuse("a target of bits per weight chooses the bits itself",
			"Leave the bits and the recipe out.")
	case o.TargetBPW != 0 && !(o.TargetBPW >= leastTarget && o.TargetBPW <= mostTarget):
		return refuse(fmt.Sprintf("the target is %g bits per weight, expected %g to %g",
			o.TargetBPW, leastTarget, mostTarget), "Choose another one.")
	}
	return nil
}

// readSample reads the calibration text of the options, if there is one.
func (c *conversion) readSample(ctx context.Context) error {
	if err := c.checkCalibration(); err != nil || c.o.Calibrate == "" {
		return err
	}
	if c.model != nil {
		_, err := os.Stat(c.o.Calibrate) // the plain model has the tokenizer
		return wrapSample(err)
	}
	size := defaultSample
	if c.isPlain() {
		m, err := models.Load(c.weights)
		if err != nil {
			return err
		}
		size = sampleSizeOf(m)
	}
	var err error
	c.sample, err = readSample(ctx, c.o.Calibrate, c.source, size)
	return err
}

// isPlain reports whether the source has the tensors of the result, but for their packing.
func (c *conversion) isPlain() bool {
	if c.model != nil {
		return false
	}
	for _, t := range c.tensors {
		v := t.values[0]
		if len(t.values) != 1 || v.Name != t.name || v.Packing != "" || t.transposed ||
			t.changes() || t.fusion != nil || t.pick != (pick{}) ||
			!slices.Equal(v.Shape, t.shape) ||
			!t.isRaw && floatTypes[v.Tensor.DType] != t.dtype {
			return false
		}
	}
	return true
}

// convertPlain converts the source to a plain model in a folder beside dest, converts that, and
// removes it. If it is stopped, the folder stays, and the next run goes on with it.
func (c *conversion) convertPlain(ctx context.Context, dest string) (done Result, err error) {
	folder := filepath.Clean(dest) + ".plain"
	o := c.o
	first := Options{Dequantize: true, DType: o.DType, Adapter: o.Adapter, Progress: o.Progress,
		Warn: o.Warn, threads: o.threads, free: o.free}
	var created []string
	first.Verify = func(plain string) error {
		if s, ok := readState(plain); ok {
			created = s.Files
		}
		second := o
		second.Adapter, second.Warn = "", func(text string) {
			if !strings.HasPrefix(text, blockLost) { // the first conversion says so
				o.Warn(text)
			}
		}
		done, err = Run(ctx, checkpoint.Source{Dir: plain}, dest, second)
		return err
	}
	if c.model != nil {
		_, err = RunGGUF(ctx, c.model.File.Paths()[0], folder, first)
	} else {
		_, err = Run(ctx, c.source, folder, first)
	}
	if err != nil {
		return Result{}, err
	}
	return done, removeCreated(folder, created, "plain model beside the result")
}

// placeCalibrated sets the places of matrices in the file beside the result, and returns its size.
func (c *conversion) placeCalibrated() (size int64) {
	for _, t := range c.tensors {
		if t.format == nil {
			continue
		}
		t.calibrated, t.calibratedAt = true, size
		size += piece{t, 0, t.rows}.size()
	}
	return size
}

// placeOf returns the place of rows from the given one on of a part.
func (t *tensor) placeOf(part, row int) int64 {
	at := t.calibratedAt
	for i := range part {
		at += int64(t.parts[i].rowBytes) * int64(t.rows)
	}
	return at + int64(t.parts[part].rowBytes)*int64(row)
}

// readCalibrated reads rows of a packed matrix.
func (c *conversion) readCalibrated(p piece, out [3][]byte) error {
	for i := range p.t.parts {
		if _, err := c.packed.ReadAt(out[i], p.t.placeOf(i, p.from)); err != nil {
			return err
		}
	}
	return nil
}

// calibrate packs the matrices of the result for the text of the options.
func (c *conversion) calibrate(ctx context.Context) (err error) {
	k := &calibration{c: c, ctx: ctx, sample: c.sample, isa: cpu.Best(), done: map[*tensor]bool{},
		rows: map[*tensor]int{}}
	if err := c.chooseBits(ctx); err != nil {
		return err
	}
	size := c.placeCalibrated()
	path := filepath.Join(c.dest, calibratedFile)
	k.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if err == nil {
		c.packed = k.file
		err = k.file.Truncate(size)
	}
	if err != nil {
		return wrap(err, "The packed matrices cannot be written")
	}
	if c.state.Calibrated == nil {
		c.state.Calibrated = map[string]uint32{}
	}
	missing := false
	for _, t := range c.tensors {
		if t.calibrated {
			k.done[t] = k.isKept(t)
			missing = missing || !k.done[t]
		}
	}
	if !missing {
		return nil
	}
	k.model, err = openObserved(c, k.sample, k.pack)
	if err != nil {
		return err
	}
	defer k.model.close()
	k.model.lookup = k.packEmbedding
	hidden, err := k.model.hidden()
	if err == nil {
		err = k.err
	}
	if err != nil {
		return err
	}
	if head := k.model.head(); head != nil && !k.done[k.model.targets[head].t] {
		k.pack(inputs{count: len(hidden), row: func(i int) []float32 { return hidden[i] }},
			[]*kernels.Weight{head})
	}
	k.packRest()
	return k.err
}

// isKept reports whether an earlier run has packed a matrix.
func (k *calibration) isKept(t *tensor) bool {
	sum, ok := k.c.state.Calibrated[t.name]
	if !ok {
		return false
	}
	got, err := k.sum(t)
	return err == nil && got == sum
}

// sum returns the checksum of a packed matrix in the file.
func (k *calibration) sum(t *tensor) (uint32, error) {
	h := crc32.New(castagnoli)
	_, err := io.Copy(h, io.NewSectionReader(k.file, t.calibratedAt, piece{t, 0, t.rows}.size()))
	return h.Sum32(), err
}

// pack packs those of the weights that are not packed yet, for inputs that all of them get, and has
// the model use the results.
func (k *calibration) pack(x inputs, weights []*kernels.Weight) {
	if k.err == nil {
		k.err = k.ctx.Err()
	}
	if k.err != nil {
		return
	}
	var left []packing
	for _, w := range weights {
		at, ok := k.model.targets[w]
		if !ok || at.t.format == nil {
			continue
		}
		p := packing{target: at, weight: w, to: k.newPacked(at.t, w.Experts*w.N)}
		if k.done[at.t] {
			p.read(k)
		} else if left = append(left, p); len(left) > 1 && left[0].weight.K != w.K {
			k.err = fmt.Errorf("%s has other inputs than %s", at.t.name, left[0].t.name)
			return
		}
		k.model.swap(w, p.asWeight())
	}
	if len(left) == 0 {
		return
	}
	if k.err = k.packFor(x, left); k.err != nil {
		return
	}
	for _, p := range left {
		k.keep(p)
	}
}

// packing is the packing of a matrix, a stack of them, or some of their rows.
type packing struct {
	target
	weight *kernels.Weight
	to     quantize.Packed
}

// newPacked allocates the memory of packed rows, outside of the heap.
func (k *calibration) newPacked(t *tensor, rows int) quantize.Packed {
	return quantize.Packed{Codes: k.model.newBytes(rows * t.parts[0].rowBytes),
		Scales: k.model.newBytes(rows * t.parts[1].rowBytes),
		Biases: k.model.newBytes(rows * t.parts[2].rowBytes)}
}

// rows returns the memory of rows [from, to).
func (p packing) rows(from, to int) quantize.Packed {
	part := func(b []byte) []byte {
		size := len(b) / (p.weight.Experts * p.weight.N)
		return b[from*size : to*size]
	}
	return quantize.Packed{Codes: part(p.to.Codes), Scales: part(p.to.Scales),
		Biases: part(p.to.Biases)}
}

// parts returns the memory of the three parts.
func (p packing) parts() [3][]byte { return [3][]byte{p.to.Codes, p.to.Scales, p.to.Biases} }

// read reads what an earlier pass has packed.
func (p packing) read(k *calibration) {
	rows := p.weight.Experts * p.weight.N
	if err := k.c.readCalibrated(piece{p.t, p.row, p.row + rows}, p.parts()); err != nil {
		k.err = wrap(err, "The packed matrices cannot be read")
	}
}

// asWeight returns the packed matrix as what operators multiply with.
func (p packing) asWeight() *kernels.Weight {
	f, w := p.t.format, *p.weight
	rows := w.Experts * w.N
	tensorOf := func(b []byte, dtype kernels.DType) kernels.Tensor {
		cols := len(b) / rows / dtype.Size()
		return kernels.Tensor{Buffer: &kernels.Buffer{Bytes: b, Size: len(b)}, DType: dtype,
			Rows: rows, Cols: cols, Stride: cols}
	}
	w.Mode, w.Bits, w.Group = f.Mode, f.Bits, f.Group
	w.Data = tensorOf(p.to.Codes, kernels.U32)
	w.Scales, w.Biases = tensorOf(p.to.Scales, p.t.dtype), tensorOf(p.to.Biases, p.t.dtype)
	return &w
}

// packFor packs matrices with the same inputs.
func (k *calibration) packFor(x inputs, all []packing) error {
	n, experts := all[0].weight.K, all[0].weight.Experts
	newHessian := func() *quantize.Hessian {
		return quantize.NewHessian(n, k.isa, k.c.o.threads)
	}
	if experts == 1 {
		h := newHessian()
		h.Add(x.count, x.row, 1)
		return k.packRows(h, all, 0)
	}
	lists := x.byExpert(experts)
	pooled := newHessian()
	pooled.Add(x.count, x.row, pooledTokens*float64(n)/float64(max(x.count, 1)))
	for e, list := range lists {
		h := newHessian()
		h.AddHessian(pooled)
		h.Add(len(list), func(i int) []float32 { return x.row(int(list[i])) }, 1)
		if err := k.packRows(h, all, e); err != nil {
			return err
		}
		if err := k.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// packRows packs the rows of one expert of each matrix.
func (k *calibration) packRows(h *quantize.Hessian, all []packing, expert int) error {
	if err := h.Factor(damping); err != nil {
		return problem.Wrap(problem.ModelBroken, err, "The model cannot be calibrated",
			"Use another text, or convert it without one.")
	}
	var s scratch
	for _, p := range all {
		n, most := p.weight.N, max(64, packedElements/p.weight.K)
		for from := expert * n; from < (expert+1)*n; from += most {
			to := min(from+most, (expert+1)*n)
			data, err := k.c.reads.rows(p.t, p.row+from, p.row+to, &s)
			if err != nil {
				return err
			}
			p.t.format.PackWithFeedback(h, p.rows(from, to), data, p.t.dtype)
		}
	}
	return nil
}

// keep writes packed rows to the file.
func (k *calibration) keep(p packing) {
	for i, b := range p.parts() {
		if _, err := k.file.WriteAt(b, p.t.placeOf(i, p.row)); err != nil {
			k.err = wrap(err, "The packed matrices cannot be written")
			return
		}
	}
	k.rows[p.t] += p.weight.Experts * p.weight.N
	if k.rows[p.t] < p.t.rows {
		return
	}
	sum, err := k.sum(p.t)
	if err == nil {
		k.done[p.t], k.c.state.Calibrated[p.t.name] = true, sum
		err = k.c.saveState()
	}
	if err != nil {
		k.err = wrap(err, "The packed matrices cannot be written")
		return
	}
	k.c.calibratedBytes += piece{p.t, 0, p.t.rows}.size()
	if k.c.o.Calibrated != nil {
		k.c.o.Calibrated(k.c.calibratedBytes, k.c.bytes)
	}
}

// packEmbedding packs an embedding. Its rows are inputs themselves and no sums over inputs, so each
// group is packed for the least error of its own. One that is the head is no exception: feedback
// for the head would make the inputs of all layers worse.
func (k *calibration) packEmbedding(w *kernels.Weight) {
	k.pack(inputs{}, []*kernels.Weight{w})
}

// packRest packs what the pass has not multiplied with.
func (k *calibration) packRest() {
	rest := 0
	for _, t := range k.c.tensors {
		if !t.calibrated || k.done[t] || k.err != nil {
			continue
		}
		rest++
		p := packing{target: target{t: t}, to: k.newPacked(t, t.rows),
			weight: &kernels.Weight{Experts: 1, N: t.rows, K: t.cols}}
		k.rows[t] = 0
		if k.err = k.packFor(inputs{}, []packing{p}); k.err == nil {
			k.keep(p)
		}
	}
	if rest > 0 {
		k.c.o.Warn(fmt.Sprintf("The text did not reach %d matrices. They are packed without it.",
			rest))
	}
}

// sampleSizeOf returns how much of a text a pass of a model can have. The ring of a layer with a
// window is as long as the pass for each sequence, so such a model gets one.
func sampleSizeOf(m models.Model) sampleSize {
	const rows = 1024
	o := runner.Options{KV: calibrationKV, Pages: rows / cache.PageTokens, Slots: 1,
		BatchRows: rows, LogitsRows: 1}
	scratch, _ := runner.ScratchBytes(m, o)
	spec, size := m.Spec(), defaultSample
	perToken := scratch / rows
	for _, l := range spec.Layers {
		perToken += 2 * kernels.F16.Size() * l.KVHeads * l.HeadDim
		size.one = size.one || l.Window > 0
	}
	size.tokens = min(sampleTokens, max(2*rows, passBytes/perToken/rows*rows))
	size.sequence = min(size.sequence, spec.ContextTokens)
	if size.one {
		size.tokens = min(size.tokens, oneSequenceTokens, spec.ContextTokens)
	}
	return size
}

var calibrationKV = cache.Plain(kernels.F16)
